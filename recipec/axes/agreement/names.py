"""What holds for the words and names of any row: each named row is there, no name is given twice, no text is empty."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

# Class of a row -> its texts that may be empty; what that means stands beside the field.
MAY_BE_EMPTY: dict[str, tuple[str, ...]] = {
    "Method": (
        *("alignment", "new_head", "generator", "judge", "packs_because", "least_micro_batch_because"),
        *("adaptations_because", "preferred_because", "precomputes", "repeats"),
    ),
    "Own": ("argument", "formula", "because"),
    "Adaptation": ("config", "module", "table", "own_key", "asked_in", "above", "rate_because"),
    "Base": ("not_on_cpu",),
    "LoraVariant": ("rate_because",),
    "Kind": ("scored", "flag", "joins", "ends"),
    "RowFormat": ("unrolled", "implicit"),
    "Attention": ("package",),
}


def unknown(row: str, field: str, named: Collection[str], known: Collection[str], table: str) -> Iterator[str]:
    """Names that a field of a row has and a table has not."""
    for name in named:
        if name not in known:
            yield f"{row}: {field} names `{name}`, which is not in {table} ({', '.join(known)})"


def repeated(row: str, field: str, named: Sequence[str]) -> Iterator[str]:
    """Names that a field of a row has more than once."""
    if len(set(named)) < len(named):
        for name in dict.fromkeys(name for name in named if named.count(name) > 1):
            yield f"{row}: {field} names `{name}` {named.count(name)} times"


def of_names(axis: str, table: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the names and texts of a table's rows."""
    for key, row in table.items():
        if key != row.name:
            yield f"{axis} `{row.name}` is in its table as `{key}`"
        yield from (f"{axis} `{row.name}`: {text}" for text in empty_texts(row))
    yield from _elsewhere(axis, table.values())


def empty_texts(row: Any) -> Iterator[str]:
    """The texts of a row, and of the rows in it, that say nothing."""
    allowed = MAY_BE_EMPTY.get(type(row).__name__, ())
    for field in row.__slots__:
        value = getattr(row, field)
        if isinstance(value, str):
            if not value.strip() and field not in allowed:
                yield f"{field} is empty"
        elif isinstance(value, tuple):
            for part in value:
                if hasattr(part, "__slots__"):  # a row in a row
                    yield from (f"{field}{_called(part)}: {text}" for text in empty_texts(part))
        elif isinstance(value, Mapping):
            for key, text in value.items():
                if isinstance(text, str) and not text.strip():
                    yield f"{field} says nothing of `{key}`"


def _called(part: Any) -> str:
    """How a row in a row is told from those beside it."""
    shown = next((getattr(part, name) for name in ("id", "name", "value") if hasattr(part, name)), "")
    return f" {shown}" if shown != "" else ""


def _elsewhere(axis: str, rows: Iterable[Any]) -> Iterator[str]:
    """A word of another tool means one row, and none that has it as its name; only of methods are several offered."""
    listed = [row for row in rows if hasattr(row, "elsewhere")]
    owners: dict[str, str] = {row.name: row.name for row in listed}
    for row in listed:
        yield from repeated(f"{axis} `{row.name}`", "elsewhere", row.elsewhere)
        for word in row.elsewhere:
            owner = owners.setdefault(word, row.name)
            if owner != row.name and (owner == word or axis != "method"):
                yield f"{axis} `{row.name}`: elsewhere has `{word}`, which means {axis} `{owner}`"
