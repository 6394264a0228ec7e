"""Questions and answers that stand side by side in columns of any name: the lines that have the answer learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from recipec.axes import CARRIED, RowFormat
from recipec.axes.row_formats import CLASS_WORDS, MADE_WORDS, PROMPT_COMPLETION, RATING_WORDS, SPEAK_FOR
from recipec.dataset.column_names import asks, is_exactly, is_filed_under, speaks
from recipec.dataset.commands import AT_THE_TOP, python_command
from recipec.dataset.contents import NOTHING, Row
from recipec.dataset.talks import written_out
from recipec.dataset.turns import lists_within

_ASK = (*SPEAK_FOR["prompt"], *SPEAK_FOR["text"], "source", "src", "review")
_ANSWER = (*SPEAK_FOR["completion"], *CLASS_WORDS, *RATING_WORDS, *MADE_WORDS, "tgt")
_MOST_READINGS = 4  # that are shown: recipec's choice
_CARRIED = {name for row in CARRIED.values() for name in row.columns}


def contents(rows: Sequence[Row]) -> list[str]:
    """The columns that every row has and most fill in their own way: what is said, not what it is filed under."""
    names = [name for name in rows[0] if name.strip() and name not in _CARRIED and not is_filed_under(rows, name)]
    return [name for name in names if all(name in row for row in rows) and _is_said([row[name] for row in rows])]


def _is_said(values: Sequence[object]) -> bool:
    said = [value for value in values if value not in NOTHING]
    if said and all(isinstance(value, list | dict) for value in said):
        return True
    return all(isinstance(value, str) for value in said) and 2 * len({*said}) > len(values)


def questions_and_answers(rows: Sequence[Row], formats: Sequence[RowFormat]) -> Iterator[str]:
    """Yield a line for each column that may be the answer to another one, where a format has questions and answers."""
    if PROMPT_COMPLETION not in formats:
        return
    names = list(rows[0]) if len(rows[0]) == 2 and not {*rows[0]} & _CARRIED else contents(rows)
    names = [name for name in names if name.strip() and not _is_noted(rows, name)]
    if any(written_out(str(rows[0][name])) for name in names):
        return
    texts = [name for name in names if not lists_within(rows[0][name]) and not _is_parted_rating(rows, name)]
    for asked, answer in _pairs(texts, [name for name in texts if asks(rows, name)]):
        prompt, completion = (json.dumps(name, ensure_ascii=False) for name in (asked, answer))
        columns = f"columns = {{ prompt = {prompt}, completion = {completion} }}"
        others = ", ".join(f"`{name}`" for name in names if name not in (asked, answer))
        without = f" ({others} {'are' if ', ' in others else 'is'} left out)" * bool(others)
        yield f"to train a model that answers `{asked}` with `{answer}`: `{columns}` under [data]{without}"


def _is_noted(rows: Sequence[Row], name: str) -> bool:
    """Whether a column holds objects that nobody answers, by its name: what is noted of a text, such as `meta`."""
    return any(isinstance(row.get(name), Mapping) for row in rows) and not speaks(name, _ANSWER)


def _is_parted_rating(rows: Sequence[Row], name: str) -> bool:
    """Whether a column that rates, by its name, holds lists or objects: several ratings are no answer."""
    return speaks(name, RATING_WORDS) and any(isinstance(row.get(name), list | dict) for row in rows)


def _pairs(names: Sequence[str], asking: Sequence[str]) -> list[tuple[str, str]]:
    """Questions with their answers, as the names of the columns say; of two names that say nothing, either way.

    Where no name speaks for a question, each column of those that are `asking` may be one.
    """
    answers = [name for name in names if speaks(name, _ANSWER) and not speaks(name, SPEAK_FOR["prompt"])]
    asked = [name for name in asking if speaks(name, _ASK) and name not in answers]
    if len(names) == 2:
        first, second = names
        if (first in answers and second not in answers) or (second in asked and first not in asked):
            return [(second, first)]
        return [(first, second)] if asked or answers else [(first, second), (second, first)]
    asked = [name for name in asked if is_exactly(name, _ASK)] or asked
    asked = asked or [name for name in asking if name not in answers]
    found = [*product(asked, answers)]
    return found if len(found) <= _MOST_READINGS else []


def texts_within(rows: Sequence[Row], places: Sequence[str], formats: Sequence[RowFormat]) -> Iterator[str]:
    """Yield the command that brings two texts out of the object that holds them, as translations have them."""
    for name, value in rows[0].items():
        if PROMPT_COMPLETION not in formats or not isinstance(value, Mapping) or len(value) != 2:
            continue
        if all(isinstance(row.get(name), Mapping) and _are_texts(row[name], [*value]) for row in rows):
            column = json.dumps(name, ensure_ascii=False)
            made = f"{{key: held for key, held in (row | row[{column}]).items() if key != {column}}}"
            if command := python_command(made, "for row in rows", places[0]):
                yield f"{AT_THE_TOP}: bring those of `{name}` there: {command}"
                yield from (f"then {line}" for line in questions_and_answers([row[name] for row in rows], formats))
            return


def _are_texts(held: Row, names: Sequence[str]) -> bool:
    return held.keys() == {*names} and all(isinstance(text, str) for text in held.values())
