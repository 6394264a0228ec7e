"""Rows with two answers side by side, and a column that names the better one, as Chatbot Arena has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes.row_formats import PREFERENCE
from recipec.dataset.column_names import words_of
from recipec.dataset.contents import Row, turns_of

_SIDES = ("conversation", "response", "answer", "completion", "output")  # of columns such as response_a, response_b
_ENDS = ("ab", "12", "AB")
_JUDGE = {"winner", "win", "won", "preferred", PREFERENCE.name, "better", "best", "choice", "chosen", "verdict"}
# How a column names a side, and the same in Python; every other value is no victory.
_NAMED = {
    "model_{}": '"model_" + won',
    "response_{}": '"response_" + won',
    "answer_{}": '"answer_" + won',
    "{}": "won",
    "{}.0": 'won + ".0"',
}


class Duel(Struct, frozen=True):
    """Two columns of answers, and the column that says which of both is better."""

    side: str  # with what the names of both begin: "response_"
    ends: str  # with what they end: "ab"
    judge: str
    won: str  # the condition under which the side with the end `won` is better, for Python
    winners: tuple[str, ...]  # of each row, the end of the better side; "" where neither is

    @property
    def names(self) -> tuple[str, str]:
        """Both columns."""
        return self.side + self.ends[0], self.side + self.ends[1]

    @property
    def talks(self) -> str:
        """What an answer is called, without its side."""
        return self.side.rstrip("_ ")

    @property
    def left(self) -> dict[str, int]:
        """What is left out, with how many of the sampled rows it is: those that neither side won."""
        return {f"rows of which `{self.judge}` names neither side": self.winners.count("")}


def duel_of(rows: Sequence[Row]) -> Duel | None:
    """The two answers of each row, and which of both is better; None of other rows."""
    for side, ends in _sides(rows[0]):
        for judge in _judges(rows[0]):
            won, winners = _winners([row.get(judge) for row in rows], judge, side, ends)
            if any(winners):
                return Duel(side, ends, judge, won, winners)
    return None


def _sides(row: Row) -> Iterator[tuple[str, str]]:
    """With what the names of both columns begin, and with what they end."""
    for side in (f"{word}{joint}" for word in _SIDES for joint in ("_", "", " ")):
        yield from ((side, ends) for ends in _ENDS if {side + end for end in ends} <= row.keys())


def _judges(row: Row) -> list[str]:
    """The columns that may name the better answer, by their names; `winner` comes first."""
    return sorted((name for name in row if _JUDGE & {*words_of(name)}), key=lambda name: name != "winner")


def _winners(values: Sequence[Any], judge: str, side: str, ends: str) -> tuple[str, tuple[str, ...]]:
    """The condition that says who won, as most of the values do, and the end of each winner.

    Numbers name sides only where both occur: 0 and 1 may also stand for the first and the second.
    """
    ways = {python: {way.format(end): end for end in ends} for way, python in _NAMED.items()}
    ways |= {json.dumps(side) + " + won": {side + end: end for end in ends}}
    ways |= {"won.upper()": {end.upper(): end for end in ends}} if ends == "ab" else {}
    found = {python: tuple(names.get(str(value), "") for value in values) for python, names in ways.items()}
    python = max(found, key=lambda python: sum(map(bool, found[python])))
    winners = found[python]
    if ends.isdecimal() and python in ("won", 'won + ".0"') and not {*ends} <= {*winners}:
        winners = ("",) * len(winners)
    said = f"row[{json.dumps(judge, ensure_ascii=False)}]"
    named = said if all(isinstance(value, str) for value in values) else f"str({said})"
    return f"{named} == {python}", winners


def are_talks(rows: Sequence[Row], duel: Duel) -> bool:
    """Whether the answers are whole conversations."""
    return bool(turns_of(rows[0].get(duel.names[0])))
