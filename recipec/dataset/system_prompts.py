"""Rows with a system prompt in a column and another one in their conversation: the commands that keep one of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipec.axes import CARRIED
from recipec.dataset.commands import jq, path_of
from recipec.dataset.contents import NOTHING, Row, turns_of

_COLUMNS = CARRIED["system"].columns


def one_system_prompt(rows: Sequence[Row], place: str, names: Sequence[str]) -> Iterator[str]:
    """Yield how to keep one prompt of each row: a row that has a prompt in one place alone keeps it either way."""
    talks = [name for name in names if any(turns_of(row.get(name)) for row in rows)]
    held = [name for name in _COLUMNS if any(_differ(row, name, talks) for row in rows)]
    if not held:
        return
    own, columns = (", ".join(map(path_of, listed)) for listed in (talks, held))
    begins = f'[({own}) | arrays | .[0] | .role? // .from?] | index("system")'
    without = f'(({own}) | arrays) |= map(select((.role // .from) != "system"))'
    for kept, program in (
        ("the system message, and the column in rows without one", f"if {begins} then del({columns}) else . end"),
        (
            "the column, and the system message in rows without one",
            f'if [{columns}] | any(. != null and . != "") then {without} else . end',
        ),
    ):
        if command := jq(program, place):
            yield f"to keep {kept}: {command}"


def _differ(row: Row, name: str, talks: Sequence[str]) -> bool:
    """Whether a column of a row holds another system prompt than one of its conversations."""
    return row.get(name) not in NOTHING and any(_told(row, talk) not in ("", row[name]) for talk in talks)


def _told(row: Row, name: str) -> str:
    """The system message that a conversation begins with; "" where it has none."""
    first = next(iter(turns_of(row.get(name))), {})
    return str(first.get("content", first.get("value"))) if "system" in (first.get("role"), first.get("from")) else ""
