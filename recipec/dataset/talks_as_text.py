"""Lists of messages that columns hold as text: in JSON, or as Python and numpy print them; and what reads them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from recipec.dataset.commands import jq, path_of, python_command, rows_as_json
from recipec.dataset.contents import SPEAKERS, Row, turns_of

_ROLES = {"system", *SPEAKERS, *SPEAKERS.values()}
_BEGINS = re.compile(r"\s*\[\s*\{\s*[\"'](?:role|content|from|value|name|weight)[\"']\s*:")
_APART = r"\}\s+\{", "}, {"  # numpy prints no commas between what an array holds

# The ways to read such a TEXT, as Python writes them -> what they do; where one fails, the next is tried.
_WAYS: dict[str, Callable[[str], Any]] = {
    "json.loads(TEXT)": json.loads,
    "ast.literal_eval(TEXT)": ast.literal_eval,
    f'ast.literal_eval(re.sub(r"{_APART[0]}", "{_APART[1]}", TEXT))': lambda text: ast.literal_eval(
        re.sub(*_APART, text)
    ),
}
_JSON = next(iter(_WAYS))
# By whether all rows have lists. No `try`: within `|=` jq 1.6 loses what it catches.
_READ_BY_JQ = {
    True: "fromjson",
    False: 'if type == "string" and test("^\\\\s*\\\\[\\\\s*\\\\{") then fromjson else . end',
}


def way_to_read(value: Any) -> str:
    """How Python reads the messages that a text is a list of, by an expression of TEXT; "" of any other value."""
    text = value if isinstance(value, str) and _BEGINS.match(value) else ""
    return next((way for way, read in _WAYS.items() if text and _are_messages(_read(read, text))), "")


def _read(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _are_messages(value: Any) -> bool:
    turns = turns_of(value)
    return (
        bool(turns)
        and all({"role", "content"} <= turn.keys() or {"from", "value"} <= turn.keys() for turn in turns)
        and any(turn.get("role", turn.get("from")) in _ROLES for turn in turns)
    )


def written_lists(rows: Sequence[Row], place: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the command that reads lists of messages which are written as texts; other values stay as they are."""
    ways = {name: [way_to_read(row.get(name)) for row in rows] for name in names}
    ways = {name: found for name, found in ways.items() if any(found)}
    made = f"row | {{{', '.join(_read_by_python(name, found) for name, found in ways.items())}}}"
    if place.rpartition(":")[0].endswith(".csv"):
        yield from [f"write JSON lines: {rows_as_json(made, place)}"] * bool(ways)
    elif {way for found in ways.values() for way in found if way} == {_JSON}:
        program = f"({', '.join(map(path_of, ways))}) |= {_READ_BY_JQ[all(map(all, ways.values()))]}"
        yield from (f"rewrite the rows: {command}" for command in [jq(program, place)] if command)
    elif ways and (command := python_command(made, "for row in rows", place)):
        yield f"rewrite the rows: {command}"


def _read_by_python(name: str, ways: Sequence[str]) -> str:
    """The entry of a Python dictionary that reads a column; what is no list stays, where some rows have none."""
    column = json.dumps(name, ensure_ascii=False)
    read = max(ways, key=["", *_WAYS].index).replace("TEXT", f"row[{column}]")
    lists = f'"".join(str(row.get({column})).split())[:2] == "[{{"'
    return f"{column}: {read}" if all(ways) else f"{column}: {read} if {lists} else row.get({column})"
