"""Ratings inside an object of a row or a message, such as `"feedback": {"rating": -1}`: what makes labels of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.axes.row_formats import FLAG_TEXTS, RATING_WORDS
from recipec.dataset.backwards import says_bad
from recipec.dataset.column_names import speaks
from recipec.dataset.commands import python_command
from recipec.dataset.contents import ASSISTANT, NOTHING, Row, flag_of, flag_text, number_of, turns_of
from recipec.dataset.votes import has_no_votes

_TALKS = ("messages", "conversations")
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
        if command := _command(rating, place):
            path = ".".join(filter(None, (rating.name, rating.key)))
            where = "of the messages" if rating.of_turns else "of the rows"
            said = f"`{path}` {where} rates answers; to make a prompt, a completion and a label of each rated one"
            yield rating.name, f"{said}, and to leave out answers without a rating: {command}"
            return


def _ratings(rows: Sequence[Row]) -> Iterator[_Rating]:
    """The ratings that stand in messages, then those in objects of the rows."""
    talk = next((name for name in _TALKS if turns_of(rows[0].get(name))), "")
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


def _command(rating: _Rating, place: str) -> str:
    name, key, talk = (json.dumps(one, ensure_ascii=False) for one in (rating.name, rating.key, rating.talk))
    texts = ", ".join(f"{json.dumps(text, ensure_ascii=False)}: {good}" for text, good in rating.labels.items())
    read = f"(held.get({name}) or {{}}).get({key})" if rating.key else f"held.get({name})"
    before = f"good = {{{texts}}}; label = lambda held: good.get(str({read}).strip().lower()); "
    before += f"without = lambda held: {{one: held[one] for one in held if one != {name}}}; "
    if rating.of_turns:
        asked, answer = f"[*map(without, row[{talk}][:n])]", "[without(turn)]"
        made = f'{{"prompt": {asked}, "completion": {answer}, "label": label(turn)}}'
        each = f"for row in rows for n, turn in enumerate(row[{talk}]) if label(turn) is not None"
        return python_command(made, each, place, before)
    made = 'without(row) | {"label": label(row)}'
    if rating.talk:
        made = f'{{"prompt": row[{talk}][:-1], "completion": row[{talk}][-1:], "label": label(row)}}'
    return python_command(made, "for row in rows if label(row) is not None", place, before)
