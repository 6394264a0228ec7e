"""The line of a recipe that would name columns of no known format: what their names and what they hold speak for."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product

from recipec.axes import Role, RowFormat
from recipec.axes.row_formats import (
    FLAGS,
    FROM_VALUE,
    IDS,
    MESSAGES,
    PROMPT_COMPLETION,
    PROMPTS,
    SPEAK_FOR,
    TALK,
    TEXT,
    TEXTS,
)
from recipec.characters import forbidden_in_name, why_forbidden
from recipec.dataset.backwards import forward
from recipec.dataset.column_names import asks, is_exactly, is_filed_under, speaks
from recipec.dataset.contents import Row, filled, flag_of, on_a_written_scale, rated_columns, turns_of
from recipec.dataset.readings import names_of
from recipec.dataset.side_by_side import contents, questions_and_answers
from recipec.dataset.talks import written_out

_ALIKE = 0.8  # of the letters of two names, by difflib: "rejcted" and "rejected", not "index" and "input"
_TURNS = ("prompt",)  # the column of a kind that conversations may be, too
_ASKED = ("prompt", "text")  # columns of a kind that hold what somebody wrote, never a number alone


_EXCEL = re.compile("sep=.?", re.IGNORECASE)


def with_renaming(names: Iterable[str], lines: Iterable[str]) -> list[str]:
    """What to do about columns that no recipe can name, then the lines that do without them."""
    marks = {name: mark for name in names if (mark := forbidden_in_name(name)) is not None}
    left = [line for line in lines if not any(_key(name) in line for name in marks)]
    if not marks:
        return left
    listed = ", ".join(json.dumps(name).replace("\x7f", r"\u007f") for name in marks)
    why = why_forbidden(next(iter(marks.values())))
    return [f"rename {listed} in the rows: a recipe names no such column, as {why}", *left]


def line_of_excel(names: Iterable[str]) -> Iterator[str]:
    """Yield what to do about the line before the names of columns that tells Excel what parts them: "sep=,"."""
    if _EXCEL.fullmatch(first := next(iter(names), "")):
        yield f"delete the first line of the file, `{first}`, which only Excel reads: the names of columns are below it"


def suggested_columns(
    rows: Iterable[Row], formats: Sequence[RowFormat], renamed: Mapping[str, str], unread: bool = True
) -> Iterator[str]:
    """Yield the line for the format that reads most of the columns, in the words of a hint.

    Of formats that read as many, it is the one that leaves most of the names as they are, then the first. Where no
    names speak for a format, one that needs a single column takes the only one that there is: which of two texts is
    the question cannot be told from them. Of rows that are `unread` both readings are offered.
    """
    rows = [*rows]
    rated = rated_columns(rows, rows[0])
    first = filled(rows) | dict.fromkeys(rated, True)  # the first row may have no rating
    labels = forward(rows, rated)
    common = [name for name in first if name in rated or all(name in row for row in rows)]
    common = [name for name in common if name not in rated or name in labels]
    # no text, and no flag though it begins with 1
    common = [name for name in common if not on_a_written_scale(rows, name) and not is_filed_under(rows, name)]
    unasked = {name for name in common if not asks(rows, name)}
    kept = {role: name for role, name in renamed.items() if name in common}
    for by_name in (True, False):
        tried = [(format, _assigned(first, common, format, kept, by_name, unasked)) for format in formats]
        if found := [(format, columns) for format, columns in tried if columns]:
            format, columns = max(found, key=lambda one: (len(_read(first, *one)), -len(one[1])))
            columns |= _asking(rows, format, columns)
            left = _losing(rows, format, columns)
            if left and (lines := [*questions_and_answers(rows, formats)]):
                yield from lines
                return
            pairs = ", ".join(f"{role} = {_key(name)}" for role, name in columns.items())
            lost = f" ({_of_left(format, left)})" * bool(left)
            yield f"if they are {format.name} rows: `columns = {{ {pairs} }}`{lost}"
            return
    yield from questions_and_answers(rows, formats) if unread and not renamed else ()


def _asking(rows: Sequence[Row], format: RowFormat, columns: Mapping[str, str]) -> dict[str, str]:
    """The prompt of answers that are plain texts, which cannot begin with it: the one column that may ask."""
    known = any(name in rows[0] for name in format.role(format.implicit).aliases) if format.implicit else True
    if known or format.implicit in columns or not all(isinstance(filled(rows)[name], str) for name in columns.values()):
        return {}
    names = prompts_beside(rows, [*columns.values()])
    return {format.implicit: names[0]} if len(names) == 1 else {}


def prompts_beside(rows: Sequence[Row], answers: Sequence[str]) -> list[str]:
    """The columns of texts that may be the prompt of these answers: those whose names say so, else all."""
    names = [name for name in contents(rows) if name not in answers and asks(rows, name)]
    names = [name for name in names if any(isinstance(row[name], str) for row in rows)]
    return [name for name in names if speaks(name, SPEAK_FOR["prompt"])] or names


def _of_left(format: RowFormat, left: Sequence[str]) -> str:
    """What becomes of columns that no role names: a reward may read those of prompts."""
    named = ", ".join(f"`{name}`" for name in left)
    if format == PROMPTS:
        return f"a reward function reads {named} if it has a parameter of that name"
    return f"they are learned without {named}"


def _read(row: Row, format: RowFormat, columns: Mapping[str, str]) -> set[str]:
    """The columns of the row that the format reads, with some of them named."""
    return {columns.get(role.name) or _known(row, role, {}) for role in format.roles} - {""}


def _losing(rows: Sequence[Row], format: RowFormat, columns: Mapping[str, str]) -> list[str]:
    """What rows say beside the columns that are read as questions, answers or texts."""
    if format not in (TEXT, PROMPTS, PROMPT_COMPLETION):
        return []
    return [name for name in contents(rows) if name not in _read(rows[0], format, columns)]


def transcripts(rows: Iterable[Row]) -> Iterator[str]:
    """Yield, for each column that holds a whole conversation as one text, how such rows are to be written."""
    first = next(iter(rows), {})
    for name, value in first.items():
        if isinstance(value, str) and written_out(value):
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
    row: Row, columns: list[str], format: RowFormat, kept: Mapping[str, str], by_name: bool, unasked: Collection[str]
) -> dict[str, str]:
    """Role -> column for every role that the format needs and that has another name; empty where one is not found.

    Columns that are `unasked` hold no questions and no texts.
    """
    known = {role.name: _known(row, role, kept) for role in format.required}
    free = [name for name in columns if name not in known.values()]
    lacking = [role for role in format.required if not known[role.name]]
    if not by_name and not len(free) == len(lacking) == len(columns) == 1:
        return {}
    # of many columns the first few that may be a role: as many as there are roles are never all another's
    may_be = [[name for name in free if _may_be(row, name, role, by_name, unasked)] for role in lacking]
    fitting = [
        sorted(names, key=lambda name: not is_exactly(name, _words_for(role)))[: len(lacking)]
        for role, names in zip(lacking, may_be, strict=True)
    ]
    as_they_stand = [tuple(free)] if all(name in names for name, names in zip(free, fitting, strict=False)) else []
    orders = product(*fitting) if by_name else as_they_stand
    names = next((names for names in orders if len({*names}) == len(lacking)), ())
    if not names:
        return {}
    own = {role: name for role, name in known.items() if name and role in kept}
    found = own | dict(zip((role.name for role in lacking), names, strict=True))
    return found | (_optional(row, columns, format, found) if by_name else {})


def _optional(row: Row, columns: list[str], format: RowFormat, found: Mapping[str, str]) -> dict[str, str]:
    """Role -> column for roles that a row may leave out, of columns whose names are spelled almost like theirs."""
    read = {_known(row, role, {}) for role in format.roles} | {*found.values()}
    lacking = [role for role in format.roles if not role.required and not _known(row, role, {})]
    named = {role.name: nearest(role, (name for name in columns if name not in read)) for role in lacking}
    return {role: name for role, name in named.items() if name and _holds(row[name], format.role(role))}


def nearest(role: Role, names: Iterable[str]) -> str:
    """The name that is spelled almost as one that the role is known by; "" where none is."""
    return next((name for name in names if _spelled_alike(name, role)), "")


def _spelled_alike(name: str, role: Role) -> bool:
    return bool(get_close_matches(name.lower(), role.aliases, 1, _ALIKE))


def _known(row: Row, role: Role, kept: Mapping[str, str]) -> str:
    names = (kept[role.name],) if role.name in kept else names_of(role, {})
    return next((name for name in names if name in row), "")


def _may_be(row: Row, name: str, role: Role, by_name: bool, unasked: Collection[str]) -> bool:
    if name in unasked and role.becomes in _ASKED:
        return False
    words = _words_for(role) + TALK * (role.becomes in _TURNS and bool(turns_of(row[name])))
    spoken = any(word in name.lower() for word in words) if role.holds == FLAGS else speaks(name, words)
    return (spoken or not by_name or _spelled_alike(name, role)) and _holds(row[name], role)


def _words_for(role: Role) -> tuple[str, ...]:
    return (*role.aliases, *SPEAK_FOR.get(role.name, ()))


def _holds(value: object, role: Role) -> bool:
    """Whether a column may be this role, by what it holds."""
    if role.holds == FLAGS:
        return flag_of(value) is not None
    if isinstance(value, str):
        return TEXTS in role.holds
    if turns := turns_of(value):
        kinds = {MESSAGES: {"role", "content"}, FROM_VALUE: {"from", "value"}}
        return any(kinds[kind] <= turns[0].keys() for kind in role.holds if kind in kinds)
    return isinstance(value, list) and IDS in role.holds


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
