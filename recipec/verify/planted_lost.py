"""Words of planted rows against the texts that were trained: what is lost, learned wrongly, or in another place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recipec.verify.planted_leaks import some
from recipec.verify.planted_rows import A_QUESTION, Wanted


def lost_problems(wanted: Sequence[Wanted], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every kind of words that are learned, shown or taken out against what the plan says."""
    whole = "\n".join(row["whole"] for row in rows)
    learned = "\n".join(stretch for row in rows for stretch in row["learned"])
    wrong: dict[str, list[str]] = {}
    for each in wanted:
        for problem, word in _all_wrong(each, rows, whole, learned):
            wrong.setdefault(problem, []).append(word)
    return [f"{problem} ({len(words)} of {len(wanted)} rows: {some(words)})" for problem, words in wrong.items()]


def _all_wrong(
    wanted: Wanted, rows: Sequence[Mapping[str, Any]], whole: str, learned: str
) -> Iterator[tuple[str, str]]:
    yield from _wrong(wanted, whole, learned)
    for look in (_parted, _swapped, _mislabeled):
        yield from look(wanted, rows)


def _wrong(wanted: Wanted, whole: str, learned: str) -> Iterator[tuple[str, str]]:
    """What is wrong, and the word that shows it."""
    cure = "carry it into the prepared row in prepare_data.py"
    for word, what in wanted.learned.items():
        if word not in whole:
            yield f"{what} of the row is lost: {cure}", word
        elif word not in learned:
            yield f"{what} of the row is shown and not learned: look at the mask of rows.py", word
    for word, what in wanted.shown.items():
        if word not in whole:
            yield f"{what} of the row is lost: {cure}", word
        elif word in learned:
            yield f"{what} of the row is learned and should only be shown", word
    for word, what in wanted.absent.items():
        if word in whole:
            yield f"{what} stays in the text, and the plan takes it out", word


def _parted(wanted: Wanted, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """What is learned where its own question is not."""
    questions = [word for word, what in wanted.shown.items() if what == A_QUESTION]
    for word, what in wanted.learned.items() if questions else ():
        holders = [row["whole"] for row in rows if word in row["whole"]]
        if holders and not any(questions[0] in text for text in holders):
            yield f"{what} stands under another question: keep them together in prepare_data.py", word


def _swapped(wanted: Wanted, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Answers that stand in the place of another one."""
    for word, side in wanted.sides.items():
        sides = [[word in text for text in row["sides"]] for row in rows if word in row["whole"]]
        if any(found != [place == side for place in range(len(found))] for found in sides if len(found) > 1):
            yield f"{wanted.learned[word]} is taken for the other one: look at encode() of rows.py", word


def _mislabeled(wanted: Wanted, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Answers that are wanted by the user's rows and unwanted by the prepared ones, or the other way round."""
    for word, label in wanted.labels.items():
        labels = {row["label"] for row in rows if word in row["whole"]}
        if labels and labels not in ({None}, {label}):
            yield f"an answer that is labeled {label} has another label: look at the converter in prepare_data.py", word
