"""What becomes of each sampled row in preparation: it is kept, or left out for a reason.

Sizes, labels and warnings read it here. templates/data/rows.py.j2 and templates/data/convert.py.j2 do the same with all
rows, in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from recipec.axes import KINDS, ROW_FORMATS
from recipec.axes.kinds import Kind
from recipec.dataset import ASSISTANT, Converted, Message, asks, says
from recipec.dataset.contents import parted
from recipec.facts.sources import SampledSource

UNANSWERED = "unanswered"  # a conversation without an answer, of which nothing is converted
EMPTY = "empty"  # an answer says nothing
UNASKED = "unasked"  # nothing is asked, or one of several questions is empty
DUPLICATE = "duplicate"  # it repeats another row exactly
EQUAL = "equal"  # its two answers are the same
CONTRADICTORY = "contradictory"  # another row judges the same answers the other way round
SILENT = (UNANSWERED, EMPTY, UNASKED)  # the row teaches nothing


class RehearsedRow(Struct):
    """A sampled row, or an answer where each becomes a row, and why preparation leaves it out."""

    place: str
    source: SampledSource
    itself: str | bytes = ""  # all that prepare_data.py tells it from others by
    made: Converted = field(default_factory=dict)  # what it is converted to; nothing where it is unanswered
    reasons: list[str] = field(default_factory=list)  # report.json counts it by the first; none of a row that is kept

    @property
    def kind(self) -> Kind:
        return KINDS[ROW_FORMATS[self.source.shape.format].kind]


class RehearsedRows(Struct, frozen=True):
    """The sampled rows of some sources in their order, but for those that `data.incomplete` leaves out."""

    sources: Sequence[SampledSource]
    rows: Sequence[RehearsedRow]

    @property
    def converted(self) -> list[RehearsedRow]:
        return [row for row in self.rows if row.made]

    @property
    def kept(self) -> list[RehearsedRow]:
        return [row for row in self.rows if not row.reasons]

    def lost(self, *reasons: str) -> list[RehearsedRow]:
        """The rows that one of these reasons holds for, whether or not another one comes before it."""
        return [row for row in self.rows if not set(reasons).isdisjoint(row.reasons)]


Look = Callable[[Sequence[RehearsedRow]], Iterable[RehearsedRow]]  # rows -> those that a reason holds for


def rehearsed(sources: Sequence[SampledSource]) -> RehearsedRows:
    """What preparation does with the sampled rows of these sources."""
    found = RehearsedRows(sources, [row for source in sources for row in _read(source)])
    leave_out(
        found.converted,
        {EMPTY: _empty, UNASKED: _unasked, DUPLICATE: repeated, EQUAL: _equal, CONTRADICTORY: _contradictory},
    )
    return found


def leave_out(rows: Sequence[RehearsedRow], looks: Mapping[str, Look]) -> None:
    """Note each reason at the rows that it holds for, in the order of preparation."""
    for reason, look in looks.items():
        for row in [*look(rows)]:
            row.reasons.append(reason)


def _read(source: SampledSource) -> Iterator[RehearsedRow]:
    unanswered = {*source.unanswered}
    converted = dict(zip(source.places, zip(source.rows, source.made, strict=True), strict=True))
    for place in source.read or source.places:
        if place in unanswered:
            yield RehearsedRow(place, source, reasons=[UNANSWERED])
        elif place in converted:
            row, made = converted[place]
            judged_by = [row.get(name) for name in source.shape.handed]
            yield RehearsedRow(place, source, _text([made, judged_by]), made)


def _empty(rows: Sequence[RehearsedRow]) -> Iterator[RehearsedRow]:
    return (row for row in _of_turns(rows) if not all(map(says_something, answers_of(row))))


def _unasked(rows: Sequence[RehearsedRow]) -> Iterator[RehearsedRow]:
    return (row for row in _of_turns(rows) if not asks(row.made))


def _of_turns(rows: Sequence[RehearsedRow]) -> Iterator[RehearsedRow]:
    return (row for row in rows if ROW_FORMATS[row.source.shape.format].turns)


def answers_of(row: RehearsedRow) -> list[Message]:
    """What the assistant says in a row of messages, but for its prompt."""
    columns = [row.made[name] for name in row.kind.taught if name in row.made] or [row.made.get("messages", [])]
    return [turn for turns in columns for turn in turns if turn["role"] == ASSISTANT[0]]


def says_something(message: Message) -> bool:
    """Whether an answer has a text behind its thought, or calls a tool."""
    return says(parted(message["content"])[1]) or bool(message.get("tool_calls"))


def repeated(rows: Sequence[RehearsedRow]) -> Iterator[RehearsedRow]:
    """The rows that teach something and repeat another one; of several, the one that weighs most stays."""
    seen: set[str | bytes] = set()
    for row in sorted(rows, key=lambda row: -row.source.weight):
        if not row.reasons:
            if row.itself in seen:
                yield row
            seen.add(row.itself)


def _equal(rows: Sequence[RehearsedRow]) -> Iterator[RehearsedRow]:
    """The rows whose answers are the same, but for the space around them."""
    for row in rows:
        if len(row.kind.taught) > 1:
            first, *others = (_bare(row.made[name]) for name in row.kind.taught)
            if all(other == first for other in others):
                yield row


def _bare(messages: Sequence[Message]) -> list[Message]:
    return [{**message, "content": message["content"].strip()} for message in messages]


def _contradictory(rows: Sequence[RehearsedRow]) -> Iterator[RehearsedRow]:
    """The rows that prefer, or label, the opposite of what others do."""
    judging = [row for row in rows if row.kind.flag or (len(row.kind.taught) > 1 and EQUAL not in row.reasons)]
    verdicts: dict[str, set[str]] = {}
    for common, preferred in map(judged, judging):
        verdicts.setdefault(common, set()).add(preferred)
    return (row for row in judging if len(verdicts[judged(row)[0]]) > 1)


def judged(row: RehearsedRow) -> tuple[str, str]:
    """What a row that judges answers has in common with its opposite, and what it prefers."""
    kind, made = row.kind, row.made
    if kind.flag:
        return _text([made[name] for name in kind.columns if name != kind.flag]), _text(made[kind.flag])
    rest = {name: value for name, value in made.items() if name not in kind.taught}
    answers = [_text(made[name]) for name in kind.taught]
    return _text([rest, sorted(answers)]), answers[0]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
