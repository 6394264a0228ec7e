"""The answers of sampled pairs, each a row with a label of its own: what a method that reads single answers learns.

templates/data/unrolled/pairs.py.j2 takes all pairs apart. Of the answers templates/data/convert.py.j2 keeps one of
each, and none that is labeled both true and false: the chosen answer of several pairs is one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import KINDS, ROW_FORMATS, RowFormat
from recipec.axes.kinds import Kind
from recipec.dataset import Converted
from recipec.facts.fact import known
from recipec.facts.labels import labeled_rows, share_true
from recipec.facts.rehearsal import RowCounts, about, rehearsed
from recipec.facts.sources import SampledSource
from recipec.rules.core import Decision


class PairAnswers(Struct, frozen=True):
    """What preparation keeps of the answers of pairs, by the rows that were read."""

    counts: RowCounts | None = None  # None where the plan counts all answers
    true_share: Decision | None = None  # None where as many are labeled true as false


def pair_answers(sources: Sequence[SampledSource]) -> PairAnswers:
    """The answers of these sources; of rows that are no pairs nothing is known."""
    if not all(source.made and _taken_apart(source) for source in sources):
        return PairAnswers()
    apart = rehearsed([_answers(source) for source in sources])
    if len(apart.kept) == len(apart.rows):
        return PairAnswers()
    rows = labeled_rows(apart)
    share, count = share_true(rows), len(rows)
    because = f"the labels of {about(count, count)} answers of the sampled pairs that preparation keeps"
    true_share = known("true_share", round(share, 3) if 0 < share < 1 else None, because, origin="data")
    return PairAnswers(apart.counts, true_share)


def answers_of_pairs(decisions: Mapping[str, Decision], found: PairAnswers) -> dict[str, Decision]:
    """The sizes where each answer of a pair becomes a row, and how many of the answers are labeled true."""
    row = ROW_FORMATS[decisions["data_format"].value]
    sizes = {id: _size(decisions[id], row, found.counts) for id in ("examples", "source_rows")}
    if not KINDS[row.unrolled].flag:
        return sizes
    wanted = f"one of the {row.answers} answers of every {row.name} row"
    share = found.true_share or known("true_share", 1 / row.answers, wanted, origin="data")
    return {**sizes, share.id: share}


def _size(size: Decision, row: RowFormat, counts: RowCounts | None) -> Decision:
    many = f"{row.answers} answers in each of {size.value:,} {row.name} rows; {size.because}"
    if counts is None or size.origin != "data":
        return replace(size, value=row.answers * size.value, because=many)
    read, lost = counts.read, counts.read - counts.kept
    repeated = f"{about(lost, read)} of {about(read, read)} answers repeat others"
    told = f"{repeated} or are labeled both true and false, which prepare_data.py leaves out"
    return replace(size, value=counts.sizes[size.id], because=f"{many}; {told}")


def _taken_apart(source: SampledSource) -> bool:
    row = ROW_FORMATS[source.shape.format]
    return bool(row.answers > 1 and KINDS[row.unrolled].flag)


def _answers(source: SampledSource) -> SampledSource:
    """The source as if its file had a row for each answer."""
    row = ROW_FORMATS[source.shape.format]
    made = tuple(answer for pair in source.made for answer in _of_pair(pair, KINDS[row.kind], KINDS[row.unrolled]))
    places = tuple(f"{place}, {name}" for place in source.places for name in KINDS[row.kind].taught)
    rows = tuple(each for each in source.rows for _ in range(row.answers))
    total, take = row.answers * source.sample.total_rows, source.given.take
    sample = replace(source.sample, rows=rows, places=places, total_rows=total)
    given = source.given.model_copy(update={"take": take and row.answers * take})
    format = next(other.name for other in ROW_FORMATS.values() if other.kind == row.unrolled)
    shape = replace(source.shape, format=format)
    return replace(source, given=given, sample=sample, made=made, shape=shape, unanswered=(), read=())


def _of_pair(pair: Converted, kind: Kind, unrolled: Kind) -> Iterator[Converted]:
    """The chosen answer, labeled true, and the rejected one, labeled false."""
    (answer,), rest = unrolled.taught, {name: value for name, value in pair.items() if name not in kind.taught}
    for name in kind.taught:
        yield {**rest, answer: pair[name], unrolled.flag: name == kind.scored}
