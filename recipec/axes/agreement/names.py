"""Names in a row: each that of another row, and none of them twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


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
