"""Answers with a label beside them that says whether they are good, as LLaMA-Factory writes rows for KTO."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from recipec.axes import METHODS
from recipec.axes.row_formats import FLAG_NAMES, UNPAIRED_PREFERENCE
from recipec.dataset.commands import python_command
from recipec.dataset.contents import NOTHING, Row, flag_of, turns_of

_JOINED = '"\\n\\n".join(filter(None, [row["instruction"], row.get("input")]))'
_ALPACA = {"prompt": _JOINED, "completion": 'row["output"]'}
METHOD = METHODS[UNPAIRED_PREFERENCE.usual]


def labeled_answers(rows: Sequence[Row], place: str, names: Iterable[str] = FLAG_NAMES) -> Iterator[str]:
    """Yield the command that makes of conversations and instructions with a label the rows that KTO learns from.

    The label is in the first of the columns that is one; rows without a label are left out.
    """
    for name in names:
        column = json.dumps(name)
        given = f' if row.get({column}) not in (None, "")' * (not labels(rows, name, every=True))
        if labels(rows, name) and (command := answers_apart(rows[0], place, name, f"row[{column}]", given)):
            yield f"to learn which answers are good, by `{name}`, rewrite the rows: {command}"
            return


def labels(rows: Sequence[Row], name: str, every: bool = False) -> bool:
    """Whether a column says of answers that they are good or bad, in every row or where it says something."""
    held = [row.get(name) for row in rows]
    said = held if every else [value for value in held if value not in NOTHING]
    return bool(said) and all(flag_of(value) is not None for value in said)


def as_learned(line: str) -> str:
    """The command, with what the recipe then says."""
    goal = f"`task = {json.dumps(METHOD.task)}` under [goal]"
    return f"{line}, and write {goal}, and the new file as `{METHOD.section}` under [data]"


def _parts(row: Row) -> dict[str, str]:
    """The prompt and the answer of rows like this one, for Python; {} where they are no such rows."""
    if {"instruction", "output"} <= row.keys():
        return _ALPACA
    talk = next((name for name in ("messages", "conversations") if turns_of(row.get(name))), "")
    column = json.dumps(talk)
    return {"prompt": f"row[{column}][:-1]", "completion": f"row[{column}][-1:]"} if talk else {}


def answers_apart(row: Row, place: str, read: str, label: str, given: str) -> str:
    """The command that makes a prompt, its answer and a label of each row like this one; "" of others.

    `label` is what Python makes of the column that is `read`, `given` the condition of rows that have one.
    """
    if not (parts := _parts(row)):
        return ""
    names = json.dumps(["instruction", "input", "output", "messages", "conversations", read])
    made = ", ".join(f"{json.dumps(key)}: {value}" for key, value in (parts | {"label": label}).items())
    left = f"{{key: held for key, held in row.items() if key not in {names}}}"
    return python_command(f"{left} | {{{made}}}", f"for row in rows{given}", place)
