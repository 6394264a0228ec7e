"""Rows that call tools which they do not offer: the commands that leave them out, or give them those of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from recipec.axes import CARRIED
from recipec.dataset.commands import python_command
from recipec.dataset.contents import CALLS, NOTHING, Row, turns_of


def offering(rows: Sequence[Row], place: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the commands for rows whose column of tools is empty, though their messages call some."""
    talks = [name for name in names if all(turns_of(row.get(name)) for row in rows)]
    for column in CARRIED["tools"].columns:
        offered = [row[column] for row in rows if row.get(column) not in NOTHING]
        if not any(column in row and row[column] in NOTHING and _calls(row, talks) for row in rows):
            continue
        named, listed = (json.dumps(value, ensure_ascii=False) for value in (column, talks))
        called = f'turn.get("tool_calls") or "{CALLS}" in (turn.get("from"), turn.get("role"))'
        calls = f"calls = lambda row: any({called} for name in {listed} for turn in row[name]); "
        if command := python_command("row", f"for row in rows if row.get({named}) or not calls(row)", place, calls):
            yield f"to leave out rows that call tools and offer none: {command}"
        if offered and all(tools == offered[0] for tools in offered):
            shared = f"{calls}rows = [*rows]; shared = next(filter(None, (row.get({named}) for row in rows))); "
            made = f"row | {{{named}: row.get({named}) or (shared if calls(row) else None)}}"
            if command := python_command(made, "for row in rows", place, shared):
                yield f"to give them the tools of the other rows, which all offer the same: {command}"


def _calls(row: Row, talks: Sequence[str]) -> bool:
    turns = [turn for name in talks for turn in turns_of(row[name])]
    return any(turn.get("tool_calls") or CALLS in (turn.get("from"), turn.get("role")) for turn in turns)
