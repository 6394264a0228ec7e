"""Texts with a class or an answer beside them: questions with answers, or raw text. The recipe must say which."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from recipec.axes import KINDS, ROW_FORMATS
from recipec.axes.row_formats import FLAG_NAMES, PROMPT_COMPLETION, TEXT
from recipec.axes.tasks import AUTO
from recipec.dataset.classes import answered_with, answers_beside, class_columns, named_as_class, two_readings
from recipec.dataset.contents import NOTHING, names_in
from recipec.dataset.labeled import as_learned, labeled_answers
from recipec.dataset.nested_ratings import nested_ratings
from recipec.dataset.questions import PASSAGE, with_passage
from recipec.dataset.ratings import learning_from_labels, ratings
from recipec.dataset.refusals import REFUSAL, refusals_learned
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.hub_source import formats_taken
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe
from recipec.units import counted

_TEXT = TEXT.roles[0].name


def class_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> dict[str, str]:
    """Columns beside texts that a model could answer with -> the lines that have it trained so."""
    if PROMPT_COMPLETION.name not in formats_taken(loaded, section):
        return {}
    return {
        name: answered_with(source.rows, source.places[0], source.shape.columns[_TEXT], name)
        for source in sources
        for name in _classes(loaded, source)
    }


def unread_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> dict[str, str]:
    """What no format reads beside the rows' columns, but could be the answer -> the lines that have it learned."""
    found = class_answers(loaded, section, sources)
    for source in (source for source in sources if source.rows):
        for line in refusals_learned(source.rows, source.places[0], [*source.shape.columns.values()]):
            found[REFUSAL] = line
        for line in labeled_answers(source.rows, source.places[0]):
            found |= dict.fromkeys(FLAG_NAMES, as_learned(line))
        for name in ratings(source.rows, names_in(source.rows)):
            for line in labeled_answers(source.rows, source.places[0], [name]):
                found[name] = as_learned(line)
        if not KINDS[ROW_FORMATS[source.shape.format].kind].flag:
            found |= {name: as_learned(line) for name, line in nested_ratings(source.rows, source.places[0])}
        for name in names_in(source.rows):
            for line in learning_from_labels(source.shape, source.rows, source.places[0], [name]):
                found[name] = line
        for line in with_passage(source.rows, source.places[0], source.shape.columns.get("prompt", "")):
            found[PASSAGE] = line
    return found


def against_classes(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield E0305 for texts beside a column of classes or of answers, unless the recipe says that they are raw text."""
    answers = class_answers(loaded, section, sources)
    for source in sources:
        for name in undecided(loaded, source)[:1]:
            if name in answers:
                yield _two_ways(loaded, section, source, name, answers[name])


def undecided(loaded: LoadedRecipe, source: SampledSource) -> list[str]:
    """The columns of classes and answers by their names, where the recipe does not say what the rows are."""
    named = {*(loaded.recipe.data.columns or ()), *(source.given.columns or ())}
    found = [] if _TEXT in named else _classes(loaded, source)
    answers = answers_beside(source.rows, found)
    return [name for name in found if named_as_class(name) or name in answers]


def _classes(loaded: LoadedRecipe, source: SampledSource) -> list[str]:
    stated = any(format not in (None, AUTO) for format in (loaded.recipe.data.format, source.given.format))
    if stated or source.shape.format != TEXT.name or not source.rows:
        return []
    passed = {*(loaded.recipe.data.ignore or ()), *source.shape.columns.values()}
    names = [name for name in names_in(source.rows) if name not in passed]
    return list(dict.fromkeys([*class_columns(source.rows, names), *answers_beside(source.rows, names)]))


def _two_ways(loaded: LoadedRecipe, section: str, source: SampledSource, name: str, answer: str) -> Diagnostic:
    values = [row[name] for row in source.rows if row.get(name) not in NOTHING]
    placed = zip(source.rows, source.places, strict=True)
    row, place = next((row, place) for row, place in placed if row.get(name) not in NOTHING)
    ignored = json.dumps(sorted({*(loaded.recipe.data.ignore or ()), name}), ensure_ascii=False)
    help = (
        answer,
        f'to train on the texts, without `{name}`: `format = "{TEXT.name}"` and `ignore = {ignored}` under [data]',
    )
    many = counted(len({str(value) for value in values}), "value")
    note = f"`{name}` has {many} in {len(values):,} sampled rows"
    if class_columns(source.rows, [name]):
        note += "; `data.system` can tell the model which there are"
    label = Label(source.place, two_readings(row, place, source.shape.columns, name))
    return Diagnostic("E0305", f"rows of data.{section} can be read in two ways", (label,), help, (note,))
