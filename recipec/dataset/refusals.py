"""Messages that refuse: OpenAI writes what is said then into `refusal`, and leaves `content` null or empty."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from recipec.dataset.commands import python_command
from recipec.dataset.contents import Row, turns_of

REFUSAL = "refusal"
_SAID = 'turn | {"content": turn.get("content") or turn["refusal"]} if "refusal" in turn else turn'
_LEARNED = f'{{key: held for key, held in ({_SAID}).items() if key != "refusal"}}'


def refused(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Yield the columns in which a message says what it refuses with, and nothing else."""
    for name in names:
        if any(turn.get(REFUSAL) and not turn.get("content") for row in rows for turn in turns_of(row.get(name))):
            yield name


def refusals_learned(rows: Sequence[Row], place: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the command with which refusals are what the assistant says."""
    columns = (json.dumps(name, ensure_ascii=False) for name in refused(rows, names))
    made = ", ".join(f"{column}: [{_LEARNED} for turn in row[{column}]]" for column in columns)
    if made and (command := python_command(f"row | {{{made}}}", "for row in rows", place)):
        yield f"to learn what `{REFUSAL}` says, make it the content: {command}"
