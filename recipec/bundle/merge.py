"""Three-way merge: what the user changed and what the new build changed since the last build, together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.bundle.lines import lines_of, stretches

MINE, LAST, NEW = "<<<<<<< your edit", "||||||| last build", ">>>>>>> new build"
_ABSENT = object()


class Merged(Struct, frozen=True):
    """The merged text and how many places both sides changed differently."""

    text: str
    conflicts: int


def merge_text(last: str, mine: str, new: str) -> Merged:
    """Merge line by line; a conflict becomes markers around your edit, the last build and the new build.

    Lines that all three share divide the files into chunks; a chunk that one side left as it was takes the other side.
    """
    merged: list[str] = []
    conflicts = 0
    for chunk_last, chunk_mine, chunk_new, shared in _chunks(*map(lines_of, (last, mine, new))):
        settled = _settle(chunk_last, chunk_mine, chunk_new)
        conflicts += settled is None
        merged += settled if settled is not None else _marked(chunk_last, chunk_mine, chunk_new)
        merged += shared
    return Merged("".join(merged), conflicts)


def has_markers(text: str) -> bool:
    """Whether a conflict of an earlier build still stands in `text`."""
    return any(line.startswith((MINE, NEW)) for line in lines_of(text))


def merge_json(last: str, mine: str, new: str) -> str | None:
    """Merge JSON documents key by key; None when both sides changed one value differently.

    Raises ValueError where one is not JSON that can be written as it was read.
    """
    from recipec.render.mapping import render_mapping

    try:
        merged = _merge_values(*map(_read_json, (last, mine, new)))
        return None if merged is None else render_mapping(merged[0], "json")
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _read_json(text: str) -> Any:
    """The document; raises ValueError for what is not JSON, or holds what recipec writes to no file."""
    import json

    from recipec.render.characters import is_allowed

    document = json.loads(text)
    json.dumps(document, allow_nan=False)  # Python reads NaN, Infinity and 1e999, which JSON does not have
    if not all(map(is_allowed, "".join(_texts(document)))):
        raise ValueError("it holds control characters or half of a character")
    return document


def _texts(value: Any) -> Iterator[str]:
    """Every string in a JSON document, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _chunks(
    last: list[str], mine: list[str], new: list[str]
) -> list[tuple[list[str], list[str], list[str], list[str]]]:
    """Stretches of the three files, each followed by one line that all of them share (none after the last)."""
    in_mine, in_new = _matches(last, mine), _matches(last, new)
    shared = [(i, in_mine[i], in_new[i]) for i in range(len(last)) if i in in_mine and i in in_new]
    chunks = []
    a = b = c = 0
    for i, j, k in shared:
        chunks.append((last[a:i], mine[b:j], new[c:k], [last[i]]))
        a, b, c = i + 1, j + 1, k + 1
    return [*chunks, (last[a:], mine[b:], new[c:], [])]


def _matches(old: list[str], new: list[str]) -> dict[int, int]:
    """Which line of `new` each kept line of `old` became."""
    return {before: after for each in stretches(old, new) if each.equal for before, after in each.pairs}


def _settle(last: Any, mine: Any, new: Any) -> Any:
    """The side that changed, or what both agree on; None when they differ."""
    if mine == new or new == last:
        return mine
    return new if mine == last else None


def _marked(last: Sequence[str], mine: Sequence[str], new: Sequence[str]) -> list[str]:
    mine, last, new = _ended(mine), _ended(last), _ended(new)
    return [f"{MINE}\n", *mine, f"{LAST}\n", *last, "=======\n", *new, f"{NEW}\n"]


def _ended(lines: Sequence[str]) -> list[str]:
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _merge_values(last: Any, mine: Any, new: Any) -> tuple[Any] | None:
    """The merged value in a tuple, which may hold `_ABSENT`; None for a conflict."""
    if _same(mine, new) or _same(new, last):
        return (mine,)
    if _same(mine, last):
        return (new,)
    if all(isinstance(side, Mapping) for side in (mine, new)):
        return _merge_keys(last if isinstance(last, Mapping) else {}, mine, new)
    return None


def _merge_keys(last: Mapping[str, Any], mine: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Any] | None:
    """Keys in the order of the new build, the user's own after them."""
    merged = {}
    for key in dict.fromkeys([*new, *mine]):
        value = _merge_values(*(side.get(key, _ABSENT) for side in (last, mine, new)))
        if value is None:
            return None
        if value[0] is not _ABSENT:
            merged[key] = value[0]
    return (merged,)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON, where `true` is not 1 and 1.0 is not 1."""
    return one == other and repr(one) == repr(other)
