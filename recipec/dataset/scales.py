"""Ratings of answers in several numbers, such as 1 to 5: which rows are good is the user's to decide."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from recipec.axes import RowFormat
from recipec.axes.row_formats import FLAGS, RATING_WORDS
from recipec.dataset.backwards import NAMED_LABEL, as_written, flag_in_python, pair_of, says_bad
from recipec.dataset.column_names import words_of
from recipec.dataset.commands import file_of, leaving_out, python_command, rows_as_json, rows_command
from recipec.dataset.contents import NOTHING, Row, flag_of, is_number, number_of
from recipec.dataset.formats import DataShape
from recipec.dataset.labeled import LABEL, Made, answers_apart, as_learned, in_place_of, labels
from recipec.dataset.ratings import goals_with_flag
from recipec.dataset.votes import has_no_votes, no_votes

# Words of names, which recipec chose. A name of other words, such as `difficulty_score`, measures something else.
_RATE = {"rating", "score", "star", "csat", "feedback", "satisfaction", "quality", "helpfulness", "correctness"}
_OF_ANSWERS = {"answer", "response", "completion", "reply", "output", "assistant", "bot", "agent", "model", "chat"}
_OF_ANSWERS |= {"grade"}  # alone it is that of a pupil
_BESIDE = {"user", "customer", "human", "annotator", "judge", "expert", "reviewer", "overall", "final", "value"}
_BESIDE |= {"average", "avg", "mean", "conversation"}
_MOST = 11  # numbers of a scale, as 0 to 10 has them: a column of more counts or measures something


def scales(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Those of the columns that rate with a few numbers, by their names and by what they hold."""
    return [name for name in names if _rates(name) and not says_bad(name) and numbers_of(rows, name)]


def _rates(name: str) -> bool:
    """Whether all words of a name speak of the rating of an answer: `score`, `answer_grade`, not `grade_level`."""
    words = {word if word in _RATE else word.removesuffix("s") for word in words_of(name)}
    rates = words & _RATE or ("grade" in words and len(words & _OF_ANSWERS) > 1)
    return bool(rates) and words <= _RATE | _OF_ANSWERS | _BESIDE


def numbers_of(rows: Sequence[Row], name: str) -> list[float]:
    """The numbers of a scale in a column; [] where it holds no scale, but counts or measures."""
    rated = _numbers_in(rows, name)
    return rated if len({*rated}) <= _MOST else []


def _numbers_in(rows: Sequence[Row], name: str) -> list[float]:
    """The numbers in a column, also where they are texts, as CSV has them; [] of fewer than three or beside others."""
    said = [row[name] for row in rows if row.get(name) not in NOTHING]
    numbers = [number for value in said if (number := number_of(value)) is not None]
    rated = [number for number in numbers if not math.isnan(number)]
    return rated if len(numbers) == len(said) and len({*rated}) > 2 else []


def least_good(numbers: Sequence[float]) -> float:
    """The least number above the middle of a scale: a beginning, as the scale says nothing of it."""
    return min(number for number in numbers if 2 * number > min(numbers) + max(numbers))


def well_rated(rows: Sequence[Row], place: str, name: str) -> Iterator[str]:
    """Yield the command that keeps the rows with a good rating."""
    least, column = least_good(numbers_of(rows, name)), json.dumps(name, ensure_ascii=False)
    each = f"for row in rows if {_is_filled(column)} and float(row[{column}]) >= {least:g}"
    if command := rows_command("row", each, place):
        yield f"to learn from the rows rated {least:g} or more alone (or from another number on): {command}"


def labels_of_scale(
    rows: Sequence[Row], places: Sequence[str], formats: Sequence[RowFormat], named: Collection[str] = ()
) -> Iterator[str]:
    """Yield what makes labels of the numbers of a scale, where a format needs a label and the rows are rated so.

    A rating has a name that says so, or is among those that the recipe `named` as labels. Where some rows have a label,
    the others alone get one. The middle of the scale is a beginning, and the user's to decide.
    """
    if not any(role.holds == FLAGS for format in formats for role in format.required):
        return
    for name in sorted(rows[0], key=says_bad):
        rated = name in named or any(word in name.lower() for word in RATING_WORDS)
        if rated and (numbers := _numbers_in(rows, name)):
            label = next((each for each in (*named, LABEL) if each != name and labels(rows, each)), LABEL)
            command, left = labeled_by(rows, places[0], name, label)
            which = "up to which number" if says_bad(name) else "from which number on"
            others = " without a label" * labels(rows, label)
            yield (
                f"`{name}` holds numbers from {min(numbers):g} to {max(numbers):g}, and a label is true or false: "
                f"decide {which} an answer{others} is good" + f"{left}, as in {command}" * bool(command)
            ) + NAMED_LABEL * (name in named)
            return


def labeled_by(rows: Sequence[Row], place: str, name: str, written: str = LABEL) -> tuple[str, str]:
    """The command that writes a label of each rating, and what it leaves out or writes over: rows without one."""
    made = _label(rows, name, written)
    label = f"row | {{{json.dumps(written, ensure_ascii=False)}: {made.label}}}"
    each = f"for row in rows if {made.given}"
    csv = file_of(place).endswith(".csv")
    command = rows_as_json(label, place, each) if csv else python_command(label, each, place)
    replaced = in_place_of(rows, [written], made.reads)
    return command, replaced + leaving_out(made.left_out, len(rows))


def learned_from_labels(rows: Sequence[Row], place: str, name: str, shape: DataShape) -> Iterator[str]:
    """Yield how good and bad answers are learned: of rows that need a label alone, or with the answer taken apart."""
    learned, goals = "to learn which answers are good", [*goals_with_flag(shape)]
    if not goals and (apart := answers_apart(rows, place, _label(rows, name))):
        yield as_learned(f"{learned}, {apart}")
    command, left = labeled_by(rows, place, name) if goals else ("", "")
    for goal, columns in goals if command else ():
        yield f"{learned}, label the rows{left}: {command}, then {goal}, and under [data] the new file as {columns}"


def _label(rows: Sequence[Row], name: str, label: str = LABEL) -> Made:
    """What makes a label of a rating where a row has none, and the condition of rows with either; NaN is no rating."""
    numbers, (column, flag) = _numbers_in(rows, name), (json.dumps(each, ensure_ascii=False) for each in (name, label))
    number, voted = f"float(row[{column}])", has_no_votes(numbers)
    good = f"{number} {_good(numbers, says_bad(name))}"
    given = f"{_is_filled(column)} and {number} == {number}" + f" and {number} != 0" * voted
    if not labels(rows, label):
        lost = {"rows without a rating": len(rows) - _rated(rows, name)} | no_votes(numbers, numbers)
        return Made(good, given, lost, (name,))
    kept, (true, false) = f"{flag_in_python(label)} in {json.dumps(pair_of(rows, label))}", as_written(rows, label)
    bare = [row for row in rows if flag_of(row.get(label)) is None]
    lost = {"rows without a label or a rating": len(bare) - _rated(bare, name)}
    lost |= no_votes(numbers, [number_of(row.get(name)) for row in bare])
    made = f"row[{flag}] if {kept} else {true!r} if {good} else {false!r}"
    return Made(made, f"{kept} or {given}", lost, (name, label))


def _good(numbers: Sequence[float], bad: bool) -> str:
    """Which numbers are good: those above the middle, or of a rating of what is bad those below it."""
    return f"<= {-least_good([-number for number in numbers]):g}" if bad else f">= {least_good(numbers):g}"


def _rated(rows: Sequence[Row], name: str) -> int:
    """How many rows have a rating."""
    return sum(is_number(row.get(name)) for row in rows)


def _is_filled(column: str) -> str:
    return f'row.get({column}) not in (None, "")'
