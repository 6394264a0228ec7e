"""Answers with a label beside them that says whether they are good, as LLaMA-Factory writes rows for KTO."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from recipec.axes import KINDS, METHODS, ROW_FORMATS
from recipec.axes.row_formats import FLAG_NAMES, UNPAIRED_PREFERENCE
from recipec.dataset.commands import leaving_out, python_command
from recipec.dataset.contents import ASSISTANT, NOTHING, SPEAKERS, TOOL_SPEAKERS, Row, flag_of, names_in, turns_of

# Names of columns that hold conversations.
TALKS = {name for row in ROW_FORMATS.values() if KINDS[row.kind].masked for role in row.roles for name in role.aliases}
METHOD = METHODS[UNPAIRED_PREFERENCE.usual]
LABEL = "label"
_ANSWERS = [word for word, role in (SPEAKERS | TOOL_SPEAKERS).items() if role == ASSISTANT[0]]


class Made(Struct, frozen=True):
    """The label of a row, and the condition of rows with one, for Python; rows without one; the columns it reads; and
    statements before them."""

    label: str
    given: str = ""
    left_out: dict[str, int] = {}
    reads: tuple[str, ...] = ()
    before: str = ""


class _Parts(Struct, frozen=True):
    """The columns that hold a prompt and its answer, what makes both, for Python, and what this says of the rows."""

    read: tuple[str, ...]
    prompt: str
    completion: str
    each: str = ""
    said: str = ""
    left_out: dict[str, int] = {}


_JOINED = '"\\n\\n".join(filter(None, [row["instruction"], row.get("input")]))'
_ALPACA = _Parts(("instruction", "input", "output"), _JOINED, 'row["output"]')


def labeled_answers(rows: Sequence[Row], place: str, names: Iterable[str] = FLAG_NAMES) -> Iterator[str]:
    """Yield the command that makes of conversations and instructions with a label the rows that KTO learns from.

    The label is in the first of the columns that is one; rows without a label are left out.
    """
    for name in names:
        if labels(rows, name) and (apart := answers_apart(rows, place, _as_it_is(rows, name))):
            yield f"to learn which answers are good, by `{name}`, {apart}"
            return


def _as_it_is(rows: Sequence[Row], name: str) -> Made:
    column = json.dumps(name)
    lost = sum(row.get(name) in NOTHING for row in rows)
    given = f'row.get({column}) not in (None, "")' * bool(lost)
    return Made(f"row[{column}]", given, {"rows without a label": lost} if lost else {}, (name,))


def labels(rows: Sequence[Row], name: str, every: bool = False) -> bool:
    """Whether a column says of answers that they are good or bad, in every row or where it says something."""
    held = [row.get(name) for row in rows]
    said = held if every else [value for value in held if value not in NOTHING]
    return bool(said) and all(flag_of(value) is not None for value in said)


def as_learned(line: str) -> str:
    """The command, with what the recipe then says."""
    goal = f"`task = {json.dumps(METHOD.task)}` under [goal]"
    return f"{line}, and write {goal}, and the new file as `{METHOD.section}` under [data]"


def answers_apart(rows: Sequence[Row], place: str, made: Made) -> str:
    """What makes a prompt, its answer and a label of rows like these, with what is left out; "" of others."""
    if not (parts := _alpaca(rows) or _talk(rows)):
        return ""
    columns = {"prompt": parts.prompt, "completion": parts.completion, LABEL: made.label}
    gone = [*parts.read, *made.reads]
    left = f"{{key: held for key, held in row.items() if key not in {json.dumps(gone)}}}"
    written = ", ".join(f"{json.dumps(key)}: {value}" for key, value in columns.items())
    each = "for row in rows" + f" if {made.given}" * bool(made.given) + parts.each
    if not (command := python_command(f"{left} | {{{written}}}", each, place, made.before)):
        return ""
    told = leaving_out(made.left_out | parts.left_out, len(rows))
    return f"rewrite the rows{parts.said}{in_place_of(rows, columns, gone)}{told}: {command}"


def in_place_of(rows: Sequence[Row], made: Iterable[str], read: Iterable[str] = ()) -> str:
    """That a command writes over columns which it does not read."""
    lost = [f"`{name}`" for name in names_in(rows) if name in {*made} - {*read}]
    return f", in place of what {' and '.join(lost)} hold{'s' * (len(lost) == 1)}" * bool(lost)


def _alpaca(rows: Sequence[Row]) -> _Parts | None:
    return _ALPACA if all({"instruction", "output"} <= row.keys() for row in rows) else None


def _talk(rows: Sequence[Row]) -> _Parts | None:
    """Conversations up to their last answer, which the label is of: the user may speak once more behind it."""
    name = next((name for name in names_in(rows) if name in TALKS and any(map(_last, _talks(rows, name)))), "")
    talks = _talks(rows, name)
    column, ends = json.dumps(name), [_last(turns) for turns in talks]
    longer = sum(0 < end < len(turns) - 1 for end, turns in zip(ends, talks, strict=True))
    said = " up to the last answer of each conversation" + f" ({longer:,} of {len(rows):,} sampled go on)" * bool(
        longer
    )
    lost = {"conversations without an answer": ends.count(0)} if 0 in ends else {}
    turns = f'enumerate(row.get({column}) or []) if turn.get("role", turn.get("from")) in {json.dumps(_ANSWERS)}'
    each = f" for end in [max((at for at, turn in {turns}), default=0)] if end"
    parts = f"row[{column}][:end]", f"row[{column}][end:end + 1]"
    return _Parts((name,), *parts, each, said, lost) if name else None


def _talks(rows: Sequence[Row], name: str) -> list[list[Row]]:
    return [[*turns_of(row.get(name))] for row in rows]


def _last(turns: Sequence[Row]) -> int:
    """The place of the last answer; 0 where nobody asks before it, too."""
    return max((at for at, turn in enumerate(turns) if turn.get("role", turn.get("from")) in _ANSWERS), default=0)
