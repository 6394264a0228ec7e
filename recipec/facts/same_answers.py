"""Sampled rows that prefer nothing, and that preparation leaves out and counts.

Pairs whose two answers are the same (W0550), and rows that prefer, or label, the opposite of what others do (W0552).
templates/data/rows.py.j2 and templates/data/flags.py.j2 find the same among all rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from recipec.axes import KINDS, ROW_FORMATS
from recipec.axes.kinds import Kind
from recipec.dataset import Converted, Message
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource, all_read, states_counts
from recipec.recipe import LoadedRecipe


def same_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0550 where sampled pairs prefer an answer to itself."""
    found = [place for source in sources for place in _same(source)]
    if not found:
        return
    pairs = sum(len(source.rows) for source in sources)
    title = f"{len(found)} of {pairs} sampled pairs of data.{section} have the same answer on both sides"
    label = Label(loaded.place("data", section), f"the first is {found[0]}")
    help = (
        'if they may be left out, write allow = ["W0550"] under [recipe]',
        "if they are many, look for what made both answers alike",
    )
    note = "prepare_data.py leaves out pairs that prefer nothing, and counts them as `equal`"
    yield Diagnostic("W0550", title, (label,), help, (note,))


def opposite_answers(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0552 where sampled rows prefer, or label, the opposite of what others do."""
    sides = _sides(sources)
    rows = [common for source in sources for _, (common, _) in _preferences(source)]
    found = [common for common in rows if len(sides[common]) > 1]
    if not found:
        return
    first, second = [*sides[found[0]].values()][:2]
    sampled = sum(len(source.rows) for source in sources)
    title = f"{len(found)} of {sampled} sampled rows of data.{section} contradict others"
    label = Label(loaded.place("data", section), f"{first} and {second} judge the same answers in opposite ways")
    help = (
        "keep the row of each two that is right, and remove the other",
        'if they may be left out, write allow = ["W0552"] under [recipe]',
    )
    notes = ["prepare_data.py leaves out all of them, and counts them as `contradictory`"]
    counts = not all_read(sources) and not states_counts(loaded, sources)
    notes += ["the plan counts them as rows, as not all rows were read"] * counts
    yield Diagnostic("W0552", title, (label,), help, (*notes,))


def preferring_nothing(sources: Sequence[SampledSource]) -> list[set[str]]:
    """The places of the rows of each source that prefer an answer to itself, or contradict others."""
    sides = _sides(sources)
    return [
        {*_same(source), *(place for place, (common, _) in _preferences(source) if len(sides[common]) > 1)}
        for source in sources
    ]


def _sides(sources: Sequence[SampledSource]) -> dict[str, dict[str, str]]:
    """What rows have in common -> what they prefer -> the first place."""
    sides: dict[str, dict[str, str]] = {}
    for place, (common, preferred) in (told for source in sources for told in _preferences(source)):
        sides.setdefault(common, {}).setdefault(preferred, place)
    return sides


def _same(source: SampledSource) -> Iterator[str]:
    taught = _kind(source).taught
    if len(taught) > 1:
        yield from (place for place, row in zip(source.places, source.made, strict=True) if _alike(row, taught))


def _alike(made: Converted, taught: Sequence[str]) -> bool:
    """Whether all answers are the same, but for the space around them."""
    first, *others = (_bare(made[name]) for name in taught)
    return all(other == first for other in others)


def _bare(messages: Sequence[Message]) -> list[Message]:
    return [{**message, "content": message["content"].strip()} for message in messages]


def _preferences(source: SampledSource) -> Iterator[tuple[str, tuple[str, str]]]:
    """The place of each row that judges answers: what it has in common with its opposite, and what it prefers."""
    kind = _kind(source)
    if kind.flag or len(kind.taught) > 1:
        for place, made in zip(source.places, source.made, strict=True):
            if kind.flag or not _alike(made, kind.taught):
                yield place, _judged(made, kind)


def _judged(made: Converted, kind: Kind) -> tuple[str, str]:
    if kind.flag:
        return _text([made[name] for name in kind.columns if name != kind.flag]), _text(made[kind.flag])
    rest = {name: value for name, value in made.items() if name not in kind.taught}
    answers = [_text(made[name]) for name in kind.taught]
    return _text([rest, sorted(answers)]), answers[0]


def _kind(source: SampledSource) -> Kind:
    return KINDS[ROW_FORMATS[source.shape.format].kind]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
