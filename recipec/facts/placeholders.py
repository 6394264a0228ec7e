"""Answers that only fill a field, such as "N/A": the model would learn to give them (W0564)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from recipec.axes import KINDS, ROW_FORMATS
from recipec.dataset.commands import rows_command
from recipec.dataset.contents import ASSISTANT
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.seen_answers import learned_answers
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import Data

# What people and tables write where there is no answer, in lower case and without dots at the end: recipec's choice.
_FILLERS = {"n/a", "#n/a", "na", "nan", "none", "null", "nil", "todo", "tbd", "tba", "undefined", "no answer"}
_FILLERS |= {"-", "--", "---", "—", "?", "??", "???", "…", "xxx"}
_SEVERAL = 0.5  # of the answers that differ: fewer are classes, of which "none" may be one


def placeholder_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0564 where sampled answers only fill a field, among answers that are no classes."""
    for source in (source for source in sources if source.rows):
        answers = [*_wanted(source, loaded.recipe.data)]
        found = [(place, text) for place, text in answers if _fills(text)]
        others = [text for _, text in answers if not _fills(text)]
        if found and len({*others}) > _SEVERAL * len(others):
            yield _warning(loaded, section, source, found, len(answers))


def _wanted(source: SampledSource, data: Data) -> Iterator[tuple[str, str]]:
    """The answers that are to be given, with the places of their rows: of a pair the chosen one."""
    format = ROW_FORMATS[source.shape.format]
    kind = KINDS[format.kind]
    if format.turns and not kind.flag:
        answers = [(place, answer["content"]) for place, (_, answer) in learned_answers(source, data)]
        yield from answers[:: max(1, len(kind.taught))]  # the rejected one follows


def _fills(text: str) -> bool:
    return text.strip().lower().rstrip(".") in _FILLERS


def _warning(
    loaded: LoadedRecipe, section: str, source: SampledSource, found: Sequence[tuple[str, str]], answers: int
) -> Diagnostic:
    said = dict.fromkeys(text.strip() for _, text in found)
    command = rows_command("row", f"for row in rows if {_says_more(source, [*said])}", source.places[0])
    listed = ", ".join(json.dumps(text, ensure_ascii=False) for text in [*said][:3])
    title = f"{len(found)} of {answers} sampled answers of data.{section} only fill a field: {listed}"
    help = (
        f"leave these rows out, or correct them{f': {command}' if command else ''}",
        'if the model is to answer so, write allow = ["W0564"] under [recipe]',
    )
    label = Label(loaded.place("data", section), f"the first is {found[0][0]}")
    return Diagnostic("W0564", title, (label,), help, ("the model learns to say this instead of an answer",))


def _says_more(source: SampledSource, said: Sequence[str]) -> str:
    """The condition on a row that no answer of it is one of these; a user may say such a word."""
    format = ROW_FORMATS[source.shape.format]
    answer, *_ = (role.name for role in format.roles if role.becomes == KINDS[format.kind].taught[0])
    column, words = source.shape.columns[answer], json.dumps(said, ensure_ascii=False)
    held = f"row[{json.dumps(column, ensure_ascii=False)}]"
    if not any(isinstance(row[column], list) for row in source.rows):
        return f"str({held}).strip() not in {words}"
    answers = f'for turn in {held} if turn.get("role", turn.get("from")) in {json.dumps(ASSISTANT)}'
    return f'not any(str(turn.get("content", turn.get("value"))).strip() in {words} {answers})'
