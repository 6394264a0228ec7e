"""What becomes of each sampled row in preparation: it is kept, or left out for a reason.

Sizes, labels and warnings read it here. templates/data/rows.py.j2 and templates/data/convert.py.j2 do the same with all
rows, in the same order. One more reason is a constant, what finds its rows, and what left_out.py says of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Any

from msgspec import Struct, field

from recipec.axes import KINDS, ROW_FORMATS
from recipec.axes.kinds import Kind
from recipec.dataset import SAMPLE_ROWS, Converted, Message, asks, says
from recipec.dataset.contents import parted
from recipec.facts.conversations import answers_in
from recipec.facts.sizes import rounded
from recipec.facts.sources import SampledSource, all_read, some_state_counts

UNANSWERED = "unanswered"  # a conversation without an answer, of which nothing is converted
EMPTY = "empty"  # an answer says nothing
UNASKED = "unasked"  # nothing is asked, or one of several questions is empty
DUPLICATE = "duplicates"  # it repeats another row exactly
EQUAL = "equal"  # its two answers are the same
CONTRADICTORY = "contradictory"  # another row judges the same answers the other way round
SILENT = (UNANSWERED, EMPTY, UNASKED)  # the row teaches nothing

FEWEST_COUNTED = 10  # rows that are left out


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

    @property
    def counts(self) -> RowCounts | None:
        """Those that a plan counts; None where few are left out, not all were read, or a source states its number."""
        lost = Counter(row.reasons[0] for row in self.rows if row.reasons)
        if lost.total() < FEWEST_COUNTED or not all_read(self.sources) or some_state_counts(self.sources):
            return None
        return RowCounts(len(self.rows), len(self.kept), fsum(row.source.weight for row in self.kept), lost)


class RowCounts(Struct, frozen=True):
    """Rows by what becomes of them in preparation; answers, where each becomes a row."""

    read: int  # rows of all sources
    kept: int  # rows of these
    weighed: float  # rows: each that is kept as often as its source is drawn
    lost: Mapping[str, int]  # reason -> rows that report.json counts by it

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the data, rounded."""
        rows = rounded(self.weighed)
        return {"examples": rows, "data_rows": rows, "source_rows": rounded(self.kept)}

    def told(self, noun: str, words: Mapping[str, str]) -> str:
        """How many are left out, as a clause; `words` says of each reason what such rows are or do."""
        lost = dict.fromkeys(words.values(), 0)
        for reason, count in self.lost.items():
            lost[words[reason]] += count
        named = " and ".join(f"{about(count, self.read)} {what}" for what, count in lost.items() if count)
        return f"of {about(self.read, self.read)} {noun}, {named}: prepare_data.py leaves them out"


def about(count: int, rows: int) -> str:
    """A count; of many rows rounded, so that a row more changes no text."""
    return f"{count:,}" if rows <= SAMPLE_ROWS else f"about {rounded(count):,}"


def rehearsed(sources: Sequence[SampledSource]) -> RehearsedRows:
    """What preparation does with the sampled rows of these sources."""
    found = RehearsedRows(sources, [row for source in sources for row in _read(source)])
    for reason, look in ((DUPLICATE, repeated), (EQUAL, _equal), (CONTRADICTORY, _contradictory)):
        leave_out(look(found.converted), reason)
    return found


def leave_out(rows: Iterable[RehearsedRow], reason: str) -> None:
    """Note the reason at these rows, behind those that hold for them before it."""
    for row in [*rows]:
        row.reasons.append(reason)


def _read(source: SampledSource) -> Iterator[RehearsedRow]:
    """The rows of a source, with the reasons that each of them has by itself."""
    converted = dict(zip(source.places, zip(source.rows, source.made, strict=True), strict=True))
    unanswered = {*source.unanswered}
    for place in source.looked_at:
        if place in unanswered:
            yield RehearsedRow(place, source, reasons=[UNANSWERED])
        elif place in converted:
            row, made = converted[place]
            judged_by = [row.get(name) for name in source.shape.handed]
            silent = {EMPTY: not all(map(says_something, answers_in(made, source.shape))), UNASKED: not asks(made)}
            reasons = [reason for reason, holds in silent.items() if holds]
            yield RehearsedRow(place, source, _text([made, judged_by]), made, reasons)


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
    for row in (row for row in rows if len(row.kind.taught) > 1):
        answers = [[turn | {"content": turn["content"].strip()} for turn in row.made[name]] for name in row.kind.taught]
        if all(answer == answers[0] for answer in answers):
            yield row


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
