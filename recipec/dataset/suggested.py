"""The line of a recipe that would name columns of no known format: what their names and what they hold speak for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import product

from recipec.axes import Role, RowFormat
from recipec.axes.row_formats import FROM_VALUE, IDS, MESSAGES, SPEAK_FOR, TEXTS
from recipec.dataset.contents import Row, turns_of
from recipec.dataset.readings import names_of

# How transcripts begin their turns: "\n\nHuman: " in hh-rlhf, "USER: " in Glaive's, "### User:" in others.
_USER_SPEAKS = re.compile(r"(?:^|\n)(?:### )?(?:human|user)\s*:", re.IGNORECASE)
_ASSISTANT_SPEAKS = re.compile(r"\n(?:### )?(?:assistant|gpt|bot)\s*:", re.IGNORECASE)


def suggested_columns(rows: Iterable[Row], formats: Iterable[RowFormat], renamed: Mapping[str, str]) -> Iterator[str]:
    """Yield the line for the first of the formats of which all columns are found, in the words of a hint.

    Where no names speak for a format, one that needs a single column takes the only one that there is: which of two
    texts is the question cannot be told from them.
    """
    first, *_ = rows = [*rows]
    common = [name for name in first if all(name in row for row in rows)]
    kept = {role: name for role, name in renamed.items() if name in common}
    tried = [(format, by_name) for by_name in (True, False) for format in formats]
    for format, by_name in tried:
        found = _assigned(first, common, format, kept, by_name)
        if found:
            pairs = ", ".join(f"{role} = {_key(name)}" for role, name in found.items())
            yield f"if they are {format.name} rows: `columns = {{ {pairs} }}`"
            return


def transcripts(rows: Iterable[Row]) -> Iterator[str]:
    """Yield, for each column that holds a whole conversation as one text, how such rows are to be written."""
    first = next(iter(rows), {})
    for name, value in first.items():
        if isinstance(value, str) and _USER_SPEAKS.search(value) and _ASSISTANT_SPEAKS.search(value):
            turns = '[{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'
            yield f"`{name}` holds a conversation as one text, which is not parsed: write it as a list, {turns}"


def misnamed(rows: Iterable[Row], renamed: Mapping[str, str]) -> Iterator[str]:
    """Yield, for each role whose column no row has, which columns are nearest."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    for role, name in renamed.items():
        if name not in names:
            near = get_close_matches(name, names, 1)
            yield f"`columns` names `{name}` for the {role}, which no row has" + (
                f": did you mean `{near[0]}`?" if near else ""
            )


def _assigned(
    row: Row, columns: list[str], format: RowFormat, kept: Mapping[str, str], by_name: bool
) -> dict[str, str]:
    """Role -> column for every role that the format needs and that has another name; empty where one is not found."""
    known = {role.name: _known(row, role, kept) for role in format.required}
    free = [name for name in columns if name not in known.values()]
    lacking = [role for role in format.required if not known[role.name]]
    if not by_name and not len(free) == len(lacking) == len(columns) == 1:
        return {}
    # of many columns the first few that may be a role: as many as there are roles are never all another's
    fitting = [[name for name in free if _may_be(row, name, role, by_name)][: len(lacking)] for role in lacking]
    as_they_stand = [tuple(free)] if all(name in names for name, names in zip(free, fitting, strict=False)) else []
    orders = product(*fitting) if by_name else as_they_stand
    names = next((names for names in orders if len({*names}) == len(lacking)), ())
    if not names:
        return {}
    own = {role: name for role, name in known.items() if name and role in kept}
    return own | dict(zip((role.name for role in lacking), names, strict=True))


def _known(row: Row, role: Role, kept: Mapping[str, str]) -> str:
    names = (kept[role.name],) if role.name in kept else names_of(role, {})
    return next((name for name in names if name in row), "")


def _may_be(row: Row, name: str, role: Role, by_name: bool) -> bool:
    lower = name.lower()
    speaks = not by_name or any(word in lower for word in (*role.aliases, *SPEAK_FOR.get(role.name, ())))
    return speaks and _holds(row[name], role)


def _holds(value: object, role: Role) -> bool:
    """Whether a column may be this role, by what it holds."""
    if isinstance(value, str):
        return TEXTS in role.holds
    if turns := turns_of(value):
        kinds = {MESSAGES: {"role", "content"}, FROM_VALUE: {"from", "value"}}
        return any(kinds[kind] <= turns[0].keys() for kind in role.holds if kind in kinds)
    return isinstance(value, list) and IDS in role.holds


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
