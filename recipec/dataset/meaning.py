"""What rows and messages say of how they are learned beside what a command reads: the command takes it along."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence

from recipec.axes import CARRIED
from recipec.axes.row_formats import MEANT
from recipec.dataset.contents import NOTHING, Row

# Names of columns that say something of a whole conversation, and of fields that say whether an answer is learned.
OF_ROWS = [name for carried in CARRIED.values() for name in carried.columns]
WEIGHTS = CARRIED["weight"].fields
_PLACES = ("role", "parent_id")  # say where a message stands: commands that make conversations read them


def beside(held: Sequence[Row], read: Collection[str], kept: Iterable[str] = ()) -> list[str]:
    """The fields with a meaning, and those that are `kept`, that rows or messages fill and a command does not read."""
    filled = dict.fromkeys(name for each in held for name, value in each.items() if value not in NOTHING)
    taken = (MEANT.keys() | {*kept}) - {*_PLACES} - {*read}
    return [name for name in filled if name in taken]


def along(held: str, fields: Sequence[str]) -> str:
    """What of these fields an object says, for Python."""
    return f'{{name: {held}[name] for name in {json.dumps(fields)} if {held}.get(name) not in (None, "")}}'


def along_jq(fields: Iterable[str]) -> str:
    """The same of the input of a program, for jq."""
    listed = ", ".join(json.dumps(name, ensure_ascii=False) for name in fields)
    return f'({{{listed}}} | with_entries(select(.value | IN(null, "") | not)))'
