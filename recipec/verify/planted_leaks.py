"""Leaks among planted rows: what is trained on and held out, in one stage or in a later one.

A split at random keeps the rows of one question together. What it tears apart are conversations that begin alike, when
more of them do than it holds out, and files, groups and stages that ask the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from recipec.axes import ROW_FORMATS
from recipec.verify.bundle import BundleStage
from recipec.verify.planted_rows import Carrying, Planted, Shared, Wanted
from recipec.verify.rows import SourceData

OPEN = range(9000, 9004)  # numbers of questions for which the probe puts some that a later stage holds out
MOST_ANSWERS = 3  # of a planted conversation
_MOST_ROWS = 400  # that ask them
_GROUP = re.compile(r"(?:question|text)-\d+")
_SHOWN = 3  # of the words or rows that are wrong, in a message

Splits = Mapping[str, Sequence[Mapping[str, Any]]]  # name -> its prepared rows, as the probe tells them


def held_out(stage: BundleStage, rows: int) -> int:
    """How many of so many rows a split holds out at most; where answers are learned apart, they are the rows."""
    share = max(stage.decisions.get(name) or 0.0 for name in ("eval_fraction", "test_fraction"))
    return math.ceil(share * rows * (MOST_ANSWERS if stage.decisions["answers_apart"] else 1))


def asking_later(stage: BundleStage, source: SourceData, carries: Carrying, first: int, others: int) -> list[Planted]:
    """Rows that ask what a later stage holds out, each question so often that this stage cannot hold it out itself.

    Without a leak check it would learn them. `others`: rows that the stage has besides. No rows where those of the
    source cannot ask what those of another one do.
    """
    written = source.given.get("path", "").endswith((".jsonl", ".json", ".csv"))
    if not (written and ROW_FORMATS[source.format].turns) or "input" in source.columns:
        return []
    times = next((n for n in range(2, _MOST_ROWS // len(OPEN)) if n > held_out(stage, others + n * len(OPEN))), 0)
    asked = [Shared(repeats=number, ends=True) for number in OPEN for _ in range(times)]
    return [Planted(source, first + place, carries, asked=of) for place, of in enumerate(asked)]


def leaks_of(sources: Sequence[Sequence[Wanted]], splits: Splits, by_column: bool, later: set[str]) -> set[str]:
    """The planted questions that are held out beside rows that may be trained on: in another file, or another group.

    Or in a later stage; and those of conversations that begin as one does that is held out.
    """
    held = held_groups(splits)
    met = Counter(group for rows in sources for group in {row.group for row in rows})
    begun = {(row.opening, row.ends) for row, names in _families(sources, splits) if names - {"train"}}
    found = {group for group, count in met.items() if group in held and (by_column or count > 1)}
    rows = [row for of in sources for row in of]
    return found | {row.group for row in rows if row.group in later or (row.opening, not row.ends) in begun}


def held_groups(splits: Splits) -> set[str]:
    """The questions that are held out."""
    return {group for name, rows in splits.items() if name != "train" for group in groups_of(rows)}


def _families(sources: Sequence[Sequence[Wanted]], splits: Splits) -> Iterator[tuple[Wanted, set[str]]]:
    """Every row that begins as others do, and the splits in which the answer to that is learned."""
    learned = {name: "\n".join(part for row in rows for part in row["learned"]) for name, rows in splits.items()}
    for row in (each for rows in sources for each in rows if each.opening):
        yield row, {name for name, text in learned.items() if row.answer in text}


def begun_problems(sources: Sequence[Sequence[Wanted]], splits: Splits) -> list[str]:
    """Conversations that teach an answer to what one asks that is held out, or to what it begins with.

    One that only begins as held-out ones do teaches nothing that others which go on from there do not teach as well.
    """
    places: dict[tuple[str, bool], Counter[str]] = {}
    for row, names in _families(sources, splits):
        places.setdefault((row.opening, row.ends), Counter()).update(names)
    other = {key: places.get((key[0], not key[1]), Counter()) for key in places}
    also = {key for key in places if key[1] and other[key]["train"]}
    leaking = {
        key: names["train"] for key, names in places.items() if other[key].keys() - {"train"} and key not in also
    }
    if not (count := sum(leaking.values())):
        return []
    words = sorted({opening for (opening, _), learned in leaking.items() if learned})
    return [
        f"{count} conversations of train.jsonl answer what one asks that is held out, or what it begins with "
        f"({some(words)}): drop such leaks in prepare_data.py, behind the split"
    ]


def later_problems(asked: Sequence[str], learned: Sequence[str]) -> list[str]:
    """Questions that a stage learns and a later one holds out."""
    if not learned:
        return []
    return [
        f"{len(learned)} of {len(asked)} questions that a later stage holds out are learned ({some(learned)}): prepare "
        "the last stage first in prepare_data.py, and drop from every stage what it and later ones hold out"
    ]


def shared_problems(splits: Splits) -> list[str]:
    """Conversations, or questions with several answers, that stand in more than one split."""
    groups = {name: {*groups_of(rows)} for name, rows in sorted(splits.items(), reverse=True)}
    cure = "split whole conversations, before each answer becomes a row"
    return [
        f"{len(both)} of {len(groups[other])} conversations of {other}.jsonl are also in {one}.jsonl "
        f"({some(sorted(both))}): {cure}"
        for one, other in combinations(groups, 2)
        if (both := groups[one] & groups[other])
    ]


def groups_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What makes rows one conversation or question: the first planted word."""
    for row in rows:
        if found := _GROUP.search(row["whole"]):
            yield found.group()


def some(words: Sequence[str]) -> str:
    """The first of these words, each once."""
    found = [*dict.fromkeys(words)]
    return ", ".join(found[:_SHOWN]) + ", …" * (len(found) > _SHOWN)
