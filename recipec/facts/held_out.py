"""The files of data.eval and data.test: which section's stage they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from recipec.axes.tasks import AUTO
from recipec.dataset import DataShape, UnknownFormat, recognise
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.data import DataFacts, HeldOut, unread
from recipec.facts.fact import known
from recipec.facts.sizes import rows_read
from recipec.facts.sources import SampledSource, sources_of
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import either
from recipec.rules.core import Decision

PARTS = ("eval", "test")


def with_held_out(loaded: LoadedRecipe, data: Mapping[str, DataFacts], report: Report) -> dict[str, DataFacts]:
    """Return the sections with has_eval_file and has_test_file: whether the file holds rows like theirs.

    Reports E0303 and E0304, and E0305 for a file whose rows are like those of no section.
    """
    sources = {part: sources_of(loaded, part, report) if loaded.is_set("data", part) else None for part in PARTS}
    fitting = {part: _fitting(loaded, part, sources[part], data, report) for part in PARTS}
    found = {}
    for name, facts in data.items():
        held_out = {part: _held_out(loaded, fitting[part][name]) for part in PARTS if name in fitting[part]}
        decisions = {**facts.decisions, **_decisions(loaded, name, fitting)}
        found[name] = replace(facts, decisions=decisions, held_out=held_out)
    return found


def _held_out(loaded: LoadedRecipe, sources: list[SampledSource]) -> HeldOut:
    return HeldOut(tuple(source.shape for source in sources), unread(loaded, sources))


Fitting = Mapping[str, Mapping[str, list[SampledSource]]]  # part -> section -> its sources, with their shapes


def _decisions(loaded: LoadedRecipe, section: str, fitting: Fitting) -> dict[str, Decision]:
    found = {}
    for part, sections in fitting.items():
        because = _because(loaded, part, section in sections)
        rows = rows_read(loaded, sections[section]) if section in sections else None
        counted = "counted in the files" if rows is not None else "not counted at compile time"
        found[f"has_{part}_file"] = known(f"has_{part}_file", section in sections, because, origin="recipe")
        found[f"{part}_rows"] = known(f"{part}_rows", rows, counted, f"has_{part}_file", origin="data")
    return found


def _because(loaded: LoadedRecipe, part: str, fits: bool) -> str:
    if not loaded.is_set("data", part):
        return f"no data.{part}"
    where = f"set in {loaded.where('data', part)}"
    return where if fits else f"{where}, with rows for another stage"


def _fitting(
    loaded: LoadedRecipe, part: str, sources: list[SampledSource] | None, data: Mapping[str, DataFacts], report: Report
) -> dict[str, list[SampledSource]]:
    """Section -> the sources of the part, each like one of its own; those that cannot be seen are for the first."""
    if sources is None or not data:
        return {}
    found, reasons = {}, {}
    for name, facts in data.items() if any(source.rows for source in sources) else list(data.items())[:1]:
        try:
            found[name] = [replace(source, shape=_like(loaded, source, facts, name)) for source in sources]
        except UnknownFormat as error:
            reasons[name] = str(error)
    if not found:
        report.add(_unlike(loaded, part, reasons))
    return found


def _like(loaded: LoadedRecipe, source: SampledSource, facts: DataFacts, section: str) -> DataShape:
    """The shape of a source whose rows are like those that are learned. Raises UnknownFormat."""
    columns, reasons, ways = source.given.columns, [], {shape.written: shape for shape in reversed(facts.shapes)}
    if len(ways) > 1 and not source.rows and source.given.format in (None, AUTO):
        wanted = either(facts.formats, "")
        raise UnknownFormat(f"{source.name} is not read at compile time: say its `format`, {wanted}")
    for shape in reversed(ways.values()):
        renamed = replace(shape, columns=shape.columns | columns) if columns else shape
        reason = _difference(loaded, source, section, renamed)
        if not reason:
            return renamed
        reasons.append(reason)
    raise UnknownFormat(reasons[0])


def _difference(loaded: LoadedRecipe, source: SampledSource, section: str, shape: DataShape) -> str:
    """Why the rows cannot be read as those of the section; "" when they can."""
    if source.given.format not in (None, AUTO, shape.format):
        return f"{source.name} is said to hold {source.given.format} rows, data.{section} holds {shape.format} rows"
    if not source.rows:
        return ""
    try:
        found = recognise(source.rows, (shape.format,), shape.columns, source.places, loaded.recipe.data.ignore or ())
    except UnknownFormat as error:
        return str(error)
    if found.content != shape.content:
        return f"{source.places[0]} has {found.content}, data.{section} has {shape.content}"
    if found.implicit_prompt != shape.implicit_prompt:
        return f"the prompt has a column of its own in one of data.{section} and {source.places[0]}"
    return ""


def _unlike(loaded: LoadedRecipe, part: str, reasons: Mapping[str, str]) -> Diagnostic:
    (section, reason), *_ = reasons.items()
    labels = (Label(loaded.place("data", part), reason), *_others(loaded, section))
    names = " and ".join(f"data.{name}" for name in reasons)
    title = f"the rows of data.{part} are not like those of {names}"
    return Diagnostic("E0305", title, labels, ("they go through the same steps: give them the same columns",))


def _others(loaded: LoadedRecipe, section: str) -> Iterator[Label]:
    yield Label(loaded.place("data", section), "learned from")
