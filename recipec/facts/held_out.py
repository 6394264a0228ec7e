"""The files of data.eval and data.test: which section's stage they are for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from recipec.dataset import DataShape, Sample, UnknownFormat, recognise
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.data import DataFacts, unread
from recipec.facts.fact import known
from recipec.facts.sources import places_of, samples_of
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

PARTS = ("eval", "test")


def with_held_out(loaded: LoadedRecipe, data: Mapping[str, DataFacts], report: Report) -> dict[str, DataFacts]:
    """Return the sections with has_eval_file and has_test_file: whether the file holds rows like theirs.

    Reports E0303 and E0304, and E0305 for a file whose rows are like those of no section.
    """
    samples = {part: samples_of(loaded, part, report) if loaded.is_set("data", part) else None for part in PARTS}
    fitting = {part: _fitting(loaded, part, samples[part], data, report) for part in PARTS}
    return {
        name: replace(
            facts,
            decisions={**facts.decisions, **_decisions(loaded, name, fitting)},
            unread=_unread(loaded, facts, [samples[part] for part in PARTS if name in fitting[part]]),
        )
        for name, facts in data.items()
    }


def _unread(loaded: LoadedRecipe, facts: DataFacts, parts: list[list[Sample] | None]) -> tuple[str, ...]:
    """What nothing reads of the rows that are learned from, and of those that stand for them."""
    found = (unread(loaded, facts.shape, samples) for samples in parts if samples)
    return tuple(dict.fromkeys((*facts.unread, *(name for names in found for name in names))))


def _decisions(loaded: LoadedRecipe, section: str, fitting: Mapping[str, list[str]]) -> dict[str, Decision]:
    facts = (
        known(f"has_{part}_file", section in sections, _because(loaded, part, section in sections), origin="recipe")
        for part, sections in fitting.items()
    )
    return {fact.id: fact for fact in facts}


def _because(loaded: LoadedRecipe, part: str, fits: bool) -> str:
    if not loaded.is_set("data", part):
        return f"no data.{part}"
    where = f"set in {loaded.where('data', part)}"
    return where if fits else f"{where}, with rows for another stage"


def _fitting(
    loaded: LoadedRecipe, part: str, samples: list[Sample] | None, data: Mapping[str, DataFacts], report: Report
) -> list[str]:
    """The sections whose rows are like those of the part; one that cannot be looked at is taken to be for the first."""
    if samples is None or not data:
        return []
    if not samples:
        return list(data)[:1]
    ignored = loaded.recipe.data.ignore or ()
    reasons = {name: _difference(samples, name, facts.shape, ignored) for name, facts in data.items()}
    sections = [name for name, reason in reasons.items() if not reason]
    if not sections:
        report.add(_unlike(loaded, part, reasons))
    return sections


def _difference(samples: list[Sample], section: str, shape: DataShape, ignored: Iterable[str]) -> str:
    """Why the rows cannot be read as those of the section; "" when they can."""
    rows, where = tuple(row for sample in samples for row in sample.rows), places_of(samples)
    try:
        found = recognise(rows, (shape.format,), shape.columns, where, ignored)
    except UnknownFormat as error:
        return str(error)
    if found.content != shape.content:
        return f"{where[0]} has {found.content}, data.{section} has {shape.content}"
    if found.implicit_prompt != shape.implicit_prompt:
        return f"the prompt has a column of its own in one of data.{section} and {where[0]}"
    return ""


def _unlike(loaded: LoadedRecipe, part: str, reasons: Mapping[str, str]) -> Diagnostic:
    (section, reason), *_ = reasons.items()
    labels = (Label(loaded.place("data", part), reason), *_others(loaded, section))
    names = " and ".join(f"data.{name}" for name in reasons)
    title = f"the rows of data.{part} are not like those of {names}"
    return Diagnostic("E0305", title, labels, ("they go through the same steps: give them the same columns",))


def _others(loaded: LoadedRecipe, section: str) -> Iterator[Label]:
    yield Label(loaded.place("data", section), "learned from")
