"""Ratings inside an object of a row or a message, such as `"feedback": {"rating": -1}`: what makes labels of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes.row_formats import FLAG_TEXTS, RATING_WORDS
from recipec.dataset.backwards import says_bad
from recipec.dataset.column_names import speaks
from recipec.dataset.commands import leaving_out, python_command
from recipec.dataset.contents import ASSISTANT, NOTHING, Row, flag_of, flag_text, number_of, turns_of
from recipec.dataset.labeled import LABEL, TALKS, Made, answers_apart, in_place_of
from recipec.dataset.votes import has_no_votes

_MOST = 11  # numbers of a scale


class _Rating(Struct, frozen=True):
    """Where ratings stand, and which texts of theirs are good."""

    talk: str  # the column of messages; "" of rows with a prompt and a completion
    name: str  # the column, or the field of messages
    key: str  # in the object that stands there; "" where the rating is no object
    labels: Mapping[str, bool]
    of_turns: bool


def nested_ratings(rows: Sequence[Row], place: str) -> Iterator[tuple[str, str]]:
    """Yield the column, or the field of messages, that rates, with the command that makes rows with a label."""
    for rating in _ratings(rows):
        made = _made(rating, rows)
        apart = _turns_apart if rating.of_turns else _labeled if not rating.talk else answers_apart
        if told := apart(rows, place, made):
            path = ".".join(filter(None, (rating.name, rating.key)))
            where = "of the messages" if rating.of_turns else "of the rows"
            yield rating.name, f"`{path}` {where} rates answers; to learn which are good, {told}"
            return


def _ratings(rows: Sequence[Row]) -> Iterator[_Rating]:
    """The ratings that stand in messages, then those in objects of the rows."""
    talk = next((name for name in rows[0] if name in TALKS and turns_of(rows[0][name])), "")
    turns = [turn for row in rows for turn in turns_of(row.get(talk))]
    others = {name for turn in turns if turn.get("role", turn.get("from")) not in ASSISTANT for name in turn}
    for name, key, values in (*_rated(turns), *_within(turns)):
        if name not in others and (labels := _labels(f"{name}_{key}", values)):
            yield _Rating(talk, name, key, labels, of_turns=True)
    for name, key, values in _within(rows) if talk or {"prompt", "completion"} <= rows[0].keys() else ():
        if labels := _labels(f"{name}_{key}", values):
            yield _Rating(talk, name, key, labels, of_turns=False)


def _rated(held: Sequence[Row]) -> Iterator[tuple[str, str, list[Any]]]:
    """The names that rate, with their values."""
    for name in dict.fromkeys(name for each in held for name in each if speaks(name, RATING_WORDS)):
        yield name, "", [each[name] for each in held if each.get(name) not in NOTHING]


def _within(held: Sequence[Row]) -> Iterator[tuple[str, str, list[Any]]]:
    """The names of objects that rate, or that have a field which does, with the values of that field."""
    names = dict.fromkeys(name for each in held for name, value in each.items() if isinstance(value, Mapping))
    for name in names:
        objects = [each[name] for each in held if isinstance(each.get(name), Mapping)]
        keys = dict.fromkeys(key for one in objects for key in one)
        for key in sorted(keys, key=lambda key: not speaks(key, RATING_WORDS)):
            if speaks(key, RATING_WORDS) or speaks(name, RATING_WORDS):
                yield name, key, [one[key] for one in objects if one.get(key) not in NOTHING]


def _labels(name: str, values: Sequence[Any]) -> dict[str, bool]:
    """How good and bad ratings are written, in lower case; {} of what does not rate with two values or more."""
    if not values or says_bad(name) or not all(isinstance(value, str | int | float) for value in values):
        return {}
    if all(flag_of(value) is not None for value in values):
        pairs = [pair for pair in FLAG_TEXTS.values() if flag_text(values[0]) in pair]
        return {text: good for pair in pairs for text, good in zip(pair, (True, False), strict=True)}
    numbers = [number for value in values if (number := number_of(value)) is not None]
    if len(numbers) < len(values) or not 1 < len({*numbers}) <= _MOST:
        return {}
    middle, unrated = (min(numbers) + max(numbers)) / 2, has_no_votes(numbers)
    rated = {str(value).lower(): number for value, number in zip(values, numbers, strict=True)}
    return {text: number > middle for text, number in sorted(rated.items()) if not (unrated and number == 0)}


def _made(rating: _Rating, rows: Sequence[Row]) -> Made:
    """What makes the label of a row, or of a message that answers, and which of them are left out."""
    name, key = (json.dumps(one, ensure_ascii=False) for one in (rating.name, rating.key))
    texts = ", ".join(f"{json.dumps(text, ensure_ascii=False)}: {good}" for text, good in rating.labels.items())
    read = f"(held.get({name}) or {{}}).get({key})" if rating.key else f"held.get({name})"
    before = f"good = {{{texts}}}; label = lambda held: good.get(str({read}).strip().lower()); "
    held, what = ("turn", "answers") if rating.of_turns else ("row", "rows")
    rated = [_value(rating, each) for each in (_answering(rows, rating.talk) if rating.of_turns else rows)]
    zeros = sum(number_of(value) == 0 and str(value).lower() not in rating.labels for value in rated)
    lost = {f"{what} without a rating": sum(str(value).strip().lower() not in rating.labels for value in rated) - zeros}
    lost |= {f'{what} with 0, which is taken for "not rated"': zeros} if zeros else {}
    return Made(f"label({held})", f"label({held}) is not None", lost, (rating.name,), before)


def _value(rating: _Rating, held: Row) -> Any:
    """The rating of a row or of a message."""
    value = held.get(rating.name)
    return (value or {}).get(rating.key) if rating.key else value


def _answering(rows: Sequence[Row], talk: str) -> list[Row]:
    turns = [turn for row in rows for turn in turns_of(row.get(talk))]
    return [turn for turn in turns if turn.get("role", turn.get("from")) in ASSISTANT]


def _labeled(rows: Sequence[Row], place: str, made: Made) -> str:
    """What puts a label in the place of the rating, in rows with a prompt and a completion."""
    (name,) = made.reads
    left = f"{{key: held for key, held in row.items() if key != {json.dumps(name, ensure_ascii=False)}}}"
    written = f'{left} | {{"{LABEL}": {made.label}}}'
    command = python_command(written, f"for row in rows if {made.given}", place, made.before)
    told = in_place_of(rows, [LABEL], made.reads) + leaving_out(made.left_out, len(rows))
    return f"label the rows{told}: {command}" if command else ""


def _turns_apart(rows: Sequence[Row], place: str, made: Made) -> str:
    """What makes a row of each answer that is rated, with all that is said before it."""
    (name,), talk = made.reads, next(each for each in rows[0] if each in TALKS and turns_of(rows[0][each]))
    field, column = (json.dumps(each, ensure_ascii=False) for each in (name, talk))
    before = made.before + f"without = lambda turn: {{key: held for key, held in turn.items() if key != {field}}}; "
    parts = {"prompt": f"[*map(without, row[{column}][:n])]", "completion": "[without(turn)]", LABEL: made.label}
    left = f"{{key: held for key, held in row.items() if key != {column}}}"
    written = ", ".join(f"{json.dumps(key)}: {value}" for key, value in parts.items())
    each = f"for row in rows for n, turn in enumerate(row[{column}]) if {made.given}"
    command = python_command(f"{left} | {{{written}}}", each, place, before)
    told = in_place_of(rows, parts, [talk]) + leaving_out(made.left_out, len(_answering(rows, talk)))
    return f"make a row of each rated answer{told}: {command}" if command else ""
