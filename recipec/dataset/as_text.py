"""The command that writes numbers, flags, lists and objects as text, in columns and messages that must hold text.

It is for Python: jq 1.6 reads every number as a float, so that long ids become equal, and writes 12.0 as 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import FLAGS, TEXTS
from recipec.dataset.commands import text_command
from recipec.dataset.contents import Row, turns_of
from recipec.dataset.formats import DataShape
from recipec.dataset.turns import is_talk, lists_within

_SAID = ("content", "value")  # fields of messages that hold what is said
_WORDS = {bool: "true and false", int: "numbers", float: "numbers", list: "lists", dict: "objects"}


def written_as_text(rows: Sequence[Row], places: Sequence[str], shape: DataShape) -> Iterator[str]:
    """Yield how to write as text what columns of the format and their messages hold otherwise."""
    roles = {name: ROW_FORMATS[shape.format].role(role) for role, name in shape.columns.items()}
    columns = [name for name, role in roles.items() if TEXTS in role.holds]
    talks = [name for name, role in roles.items() if role.holds != FLAGS]
    found = [(place, *one) for place, row in zip(places, rows, strict=True) for one in _found(row, columns, talks)]
    if found:
        named = dict.fromkeys((name, field) for _, name, field, _ in found)
        fields = {name: [field for of, field in named if of == name] for name, field in named if field}
        whole = [name for name, field in named if not field]
        mixed = [name for name in whole if any(_is_talk(row.get(name)) for row in rows)]
        command = text_command(whole, fields, found[0][0], mixed)
        what = " and ".join(sorted({_WORDS[type(value)] for *_, value in found}))
        yield f"write {what} as text" + f": {command}" * bool(command)


def _found(row: Row, columns: Sequence[str], talks: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Columns and fields of their messages that hold no text, with the value; no messages, whatever their form."""
    yield from ((name, "", row[name]) for name in columns if _is_no_text(row.get(name)))
    for name in talks:
        for turn in turns_of(row.get(name)):
            yield from ((name, key, turn[key]) for key in _SAID if _is_unsaid(turn.get(key)))


def _is_unsaid(said: Any) -> bool:
    """Whether it is neither a text nor texts in parts; parts that hold something else can be no text."""
    parts = isinstance(said, list) and all(isinstance(part, dict) and "type" in part for part in said)
    return type(said) in _WORDS and not parts


def _is_no_text(value: Any) -> bool:
    return type(value) in _WORDS and not (value == [] or _is_talk(value) or lists_within(value))


def _is_talk(value: Any) -> bool:
    """Whether it is a list of messages, or a single one."""
    return is_talk(value) or is_talk([value])
