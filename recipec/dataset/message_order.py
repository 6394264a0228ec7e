"""In which order the messages of a conversation stand: the column that says so, and one that says something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recipec.dataset.column_names import orders, speaks, words_of
from recipec.dataset.contents import Row, is_number

# Words of names, which recipec chose: of the place of a message, then of its time, then of what happened to it later.
_PLACE = ("seq", "sequence", "turn", "step", "position", "pos", "index", "idx")
_TIME = ("created", "sent", "timestamp", "ts", "datetime", "date", "time", "at")
_LATER = ("updated", "modified", "edited", "read", "seen", "received", "delivered", "deleted", "closed")
_NUMBER = ("number", "num", "no", "nr")  # of messages where the word is the last one, of things to count elsewhere
_MESSAGES = ("message", "msg", "turn", "utterance", "line", "row", "reply", "post", "sentence")
_COUNTS = ("token", "count", "length", "len", "total", "size")
_DURATIONS = ("duration", "latency", "response", "elapsed", "wait", "waiting", "delay", "handle", "handling")
_DURATIONS += ("processing", "typing", "thinking", "taken", "spent")
_DISTINCT = 0.9  # of the messages of conversations, at least: nearly each has a value of its own


def order_of(rows: Sequence[Row], talk: str, names: Sequence[str]) -> tuple[str, str]:
    """The column that orders the messages of each `talk`, and another that orders them otherwise; "" without one."""
    talks: dict[Any, list[Row]] = {}
    for row in rows:
        talks.setdefault(row[talk], []).append(row)
    found = [name for name in names if _fit(name) and orders(name, [row[name] for row in rows]) and _sorts(rows, name)]
    found = sorted((name for name in found if _differs(name, [*talks.values()])), key=_fit, reverse=True)
    if not found:
        return "", ""
    told = [*_orders(found[0], [*talks.values()])]
    others = (name for name in found[1:] if _fit(name) > 1 and [*_orders(name, [*talks.values()])] != told)
    return found[0], next(others, "")


def _fit(name: str) -> int:
    """How well a name fits an order of messages: 3 for a place, 2 for a time, 1 for a later time, 0 for all else."""
    words = words_of(name)
    if speaks(name, (*_COUNTS, *_DURATIONS)) or (len(words) > 1 and words[0] in _NUMBER):
        return 0
    numbered = words[-1:] and words[-1] in _NUMBER and (len(words) == 1 or speaks(name, _MESSAGES))
    if speaks(name, _PLACE) or words[-1:] == ["order"] or numbered:
        return 3
    return (1 if speaks(name, _LATER) else 2) if speaks(name, _TIME) else 0


def _differs(name: str, talks: Sequence[Sequence[Row]]) -> bool:
    """Whether nearly all messages of a conversation have a value of their own."""
    long = [turns for turns in talks if len(turns) > 1]
    return sum(len({turn[name] for turn in turns}) for turns in long) >= _DISTINCT * sum(map(len, long))


def _orders(name: str, talks: Sequence[Sequence[Row]]) -> Iterator[list[int]]:
    """Yield the places that the messages of each conversation have in this order."""
    number = in_numbers([turn for turns in talks for turn in turns], name)
    for turns in talks:
        keys = [float(turn[name]) if number else turn[name] for turn in turns]
        yield sorted(range(len(keys)), key=keys.__getitem__)


def in_numbers(rows: Sequence[Row], name: str) -> bool:
    """Whether a column is sorted as numbers, which CSV has as texts."""
    return all(is_number(row[name]) for row in rows)


def _sorts(rows: Sequence[Row], name: str) -> bool:
    """Whether values can be sorted: numbers, or texts."""
    return in_numbers(rows, name) or all(isinstance(row[name], str) for row in rows)
