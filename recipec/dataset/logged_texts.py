"""Traced runs whose questions and answers are texts of JSON, or of what Python prints, as CSV has them."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from recipec.dataset.contents import Row, turns_of
from recipec.dataset.logged import RUNS, is_turn, of_conversations, of_runs, of_talks
from recipec.dataset.published_rows import Found

_NOTHING = "{}"  # what an empty text is read as
# How Python calls what reads the texts -> the same, and the statement that it needs.
_WAYS: dict[str, tuple[Callable[[str], Any], str]] = {
    "json.loads": (json.loads, ""),
    "ast.literal_eval": (ast.literal_eval, "import ast; "),
}


def of_texts(rows: Sequence[Row], named: Sequence[tuple[str, str]] = RUNS) -> Iterator[Found]:
    """What such runs say, with the statement that reads their texts; an answer of several fields is learned as JSON."""
    for names in named:
        for way, (read, imports) in _WAYS.items():
            values = {name: _values(rows, name, read) for name in names}
            if not (all(values.values()) and _are_answers(values[names[1]])):
                continue
            pairs = zip(*values.values(), strict=True)
            held = [{**row, **dict(zip(names, pair, strict=True))} for row, pair in zip(rows, pairs, strict=True)]
            before = f"{imports}rows = (row | {{{', '.join(_read_by(way, name) for name in names)}}} for row in rows); "
            found = (found for of in (of_runs, of_conversations, of_talks) for found in of(held, [names]))
            yield from (replace(one, before=before, texts=True) for one in found)
            return


def _read_by(way: str, name: str) -> str:
    """The entry of a Python dictionary that reads a column."""
    return f'{json.dumps(name)}: {way}(row[{json.dumps(name)}] or "{_NOTHING}")'


def _values(rows: Sequence[Row], name: str, read: Callable[[str], Any]) -> list[Any]:
    """The objects or lists that all texts of a column say; none where one says something else."""
    texts = [row.get(name, 0) or _NOTHING for row in rows]
    if not all(isinstance(text, str) and text.lstrip()[:1] in ("{", "[") for text in texts):
        return []
    try:
        values = [*map(read, texts)]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return values if any(values) and all(isinstance(value, dict | list) for value in values) else []


def _are_answers(values: Sequence[Any]) -> bool:
    """Whether each is a message, messages, what a model generated, or one text under the same name."""
    objects = [value for value in values if isinstance(value, dict) and value and not _is_logged(value)]
    lists = [value for value in values if isinstance(value, list)]
    one_text = len({*map(tuple, objects)}) < 2 and all(_is_text(value) for value in objects)
    return one_text and all(turns and all(map(is_turn, turns)) for turns in map(turns_of, lists))


def _is_logged(value: Row) -> bool:
    return is_turn(value) or bool(turns_of(value.get("messages"))) or isinstance(value.get("generations"), list)


def _is_text(value: Row) -> bool:
    return len(value) == 1 and all(isinstance(text, str) for text in value.values())
