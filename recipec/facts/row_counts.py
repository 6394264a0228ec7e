"""How many of the rows that were read preparation keeps: where all were, the plan counts no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum

from msgspec import Struct
from msgspec.structs import replace

from recipec.dataset import SAMPLE_ROWS
from recipec.facts.rehearsal import CONTRADICTORY, DUPLICATE, EQUAL, SILENT, RehearsedRows
from recipec.facts.sizes import rounded
from recipec.facts.sources import all_read, some_state_counts
from recipec.rules.core import Decision

FEWEST_COUNTED = 10  # rows that are left out
_ROWS = {
    **dict.fromkeys(SILENT, "have no answer or ask nothing"),
    DUPLICATE: "are exact duplicates",
    **dict.fromkeys((EQUAL, CONTRADICTORY), "prefer nothing or contradict others"),
}


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

    def about(self, count: int) -> str:
        return about(count, self.read)

    def told(self, noun: str, words: Mapping[str, str]) -> str:
        """How many are left out, as a clause; `words` says of each reason what such rows are or do."""
        lost = dict.fromkeys(words.values(), 0)
        for reason, count in self.lost.items():
            lost[words[reason]] += count
        named = " and ".join(f"{self.about(count)} {what}" for what, count in lost.items() if count)
        return f"of {self.about(self.read)} {noun}, {named}: prepare_data.py leaves them out"


def counted(rehearsal: RehearsedRows) -> RowCounts | None:
    """The rows that a plan counts; None where few are left out, not all were read, or a source states its number."""
    lost, kept = Counter(row.reasons[0] for row in rehearsal.rows if row.reasons), rehearsal.kept
    if lost.total() < FEWEST_COUNTED or not all_read(rehearsal.sources) or some_state_counts(rehearsal.sources):
        return None
    return RowCounts(len(rehearsal.rows), len(kept), fsum(row.source.weight for row in kept), lost)


def without_left_out(sizes: Sequence[Decision], rehearsal: RehearsedRows) -> list[Decision]:
    """The sizes of the data without rows that preparation will leave out."""
    counts = counted(rehearsal)
    if counts is None:
        return [*sizes]
    told, rows = counts.told("rows", _ROWS), counts.sizes
    return [
        replace(size, value=rows[size.id], because=f"{size.because}; {told}")
        if size.id in rows and size.origin == "data"
        else size
        for size in sizes
    ]


def about(count: int, rows: int) -> str:
    """A count; of many rows rounded, so that a row more changes no text."""
    return f"{count:,}" if rows <= SAMPLE_ROWS else f"about {rounded(count):,}"
