"""Traced runs whose questions and answers are texts of JSON, or of what Python prints, as CSV has them."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from recipec.dataset.contents import Row, turns_of
from recipec.dataset.logged import RUNS, is_turn, of_conversations, of_runs, of_talks
from recipec.dataset.published_rows import Recognition

_MOST = 0.5  # of the sampled rows: from there on the others are taken for runs that failed; our decision
_NOTHING = "{}"  # what an empty text is read as
_BEGIN = ["{", "["]  # objects and lists
# How Python calls what reads the texts -> the same, and the statement that it needs.
_WAYS: dict[str, tuple[Callable[[str], Any], str]] = {
    "json.loads": (json.loads, ""),
    "ast.literal_eval": (ast.literal_eval, "import ast; "),
}


def of_texts(rows: Sequence[Row], named: Sequence[tuple[str, str]] = RUNS) -> Iterator[Recognition]:
    """What such runs say, with the statement that reads their texts; an answer of several fields is learned as JSON."""
    for names in named:
        begin = [all(_begins(row.get(name, 0)) for name in names) for row in rows]
        held = [row for row, begins in zip(rows, begin, strict=True) if begins]
        if len(held) < _MOST * len(rows) or not all(
            isinstance(row[name], str | None) for row in rows for name in names
        ):
            continue
        for way, (read, imports) in _WAYS.items():
            if not _are_answers(_values(held, names[1], read)) or not _values(held, names[0], read):
                continue
            fields = ", ".join(f'{json.dumps(name)}: {way}(row[{json.dumps(name)}] or "{_NOTHING}")' for name in names)
            before = f"{imports}rows = (row | {{{fields}}} for row in rows{_where(names) * (False in begin)}); "
            left = f", without rows that hold other texts ({begin.count(False)} of {len(begin)} sampled)"
            for one in _of_objects(held, names, read):
                best = one.best + left * (False in begin)
                yield replace(one, best=best, before=before)
            return


def _of_objects(rows: Sequence[Row], names: tuple[str, str], read: Callable[[str], Any]) -> Iterator[Recognition]:
    """What the runs say once their texts are read."""
    pairs = zip(*(_values(rows, name, read) for name in names), strict=True)
    held = [{**row, **dict(zip(names, pair, strict=True))} for row, pair in zip(rows, pairs, strict=True)]
    for of in (of_runs, of_conversations, of_talks):
        yield from of(held, [names])


def _begins(text: Any) -> bool:
    """Whether a text may be an object or a list; an empty one says nothing."""
    return text is None or (isinstance(text, str) and (text or _NOTHING).lstrip()[:1] in _BEGIN)


def _where(names: Sequence[str]) -> str:
    """The clause that leaves out rows with other texts, such as those of runs that failed."""
    return f' if all((row[name] or "{_NOTHING}").lstrip()[:1] in {json.dumps(_BEGIN)} for name in {json.dumps(names)})'


def _values(rows: Sequence[Row], name: str, read: Callable[[str], Any]) -> list[Any]:
    """The objects or lists that the texts of a column say; none where one says something else, or all say nothing."""
    try:
        values = [read(row[name] or _NOTHING) for row in rows]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return values if any(values) and all(isinstance(value, dict | list) for value in values) else []


def _are_answers(values: Sequence[Any]) -> bool:
    """Whether each is a message, messages, what a model generated, or one text under the same name."""
    objects = [value for value in values if isinstance(value, dict) and value and not _is_logged(value)]
    lists = [value for value in values if isinstance(value, list)]
    one_text = len({*map(tuple, objects)}) < 2 and all(_is_text(value) for value in objects)
    return bool(values) and one_text and all(turns and all(map(is_turn, turns)) for turns in map(turns_of, lists))


def _is_logged(value: Row) -> bool:
    return is_turn(value) or bool(turns_of(value.get("messages"))) or isinstance(value.get("generations"), list)


def _is_text(value: Row) -> bool:
    return len(value) == 1 and all(isinstance(text, str) for text in value.values())
