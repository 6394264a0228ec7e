"""Three-way merge: what the user changed and what the new build changed since the last build, together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recipec.bundle.lines import lines_of, stretches

MINE, LAST, NEW = "<<<<<<< your edit", "||||||| last build", ">>>>>>> new build"
BETWEEN = "======="
_ABSENT = object()


class Merged(Struct, frozen=True):
    """The merged text and how many places both sides changed differently."""

    text: str
    conflicts: int


def merge_text(last: str, mine: str, new: str, keep: bool = False) -> Merged:
    """Merge line by line; a conflict becomes markers around your edit, the last build and the new build.

    Lines that all three share divide the files into chunks; a chunk that one side left as it was takes the other side.
    With `keep` there are no markers: the lines that you changed stay yours.
    """
    merged: list[str] = []
    conflicts = 0
    for chunk_last, chunk_mine, chunk_new, shared in _chunks(*map(lines_of, (last, mine, new))):
        settled = _settle(chunk_last, chunk_mine, chunk_new)
        conflicts += settled is None
        if settled is None:
            settled = (_kept if keep else _marked)(chunk_last, chunk_mine, chunk_new)
        merged += settled
        merged += shared
    return Merged("".join(merged), conflicts)


def has_markers(text: str) -> bool:
    """Whether a conflict of an earlier build still stands in `text`."""
    return any(line.startswith((MINE, NEW)) for line in lines_of(text))


_SIDES = {MINE: "your edit", LAST: "the last build", BETWEEN: "the new build", NEW: ""}  # what follows each marker


def conflict_at(text: str, number: int) -> str:
    """Which side of a conflict that is not resolved has line `number` (from 1), "a marker"; "" outside of conflicts."""
    side = ""
    for line in lines_of(text)[:number]:
        marker = next((each for each in _SIDES if line.rstrip("\n") == each), None)
        opened = marker is not None and (bool(side) or marker == MINE)
        side, found = (_SIDES[marker], "a marker") if opened else (side, side)
    return found


def merge_json(last: str, mine: str, new: str) -> Merged:
    """Merge JSON documents key by key; a value that both sides changed differently stays yours.

    Raises ValueError where one is not JSON that can be written as it was read.
    """
    from recipec.render.mapping import render_mapping

    try:
        conflicts: list[Any] = []
        merged = _merge_values(*map(_read_json, (last, mine, new)), conflicts)
        return Merged(render_mapping(merged, "json"), len(conflicts))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _read_json(text: str) -> Any:
    """The document; raises ValueError for what is not JSON, or holds what recipec writes to no file."""
    import json

    from recipec.render.characters import is_allowed

    document = json.loads(text.removeprefix("\ufeff"))
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
    return [f"{MINE}\n", *mine, f"{LAST}\n", *last, f"{BETWEEN}\n", *new, f"{NEW}\n"]


def _kept(last: Sequence[str], mine: Sequence[str], new: Sequence[str]) -> list[str]:
    """Your lines; where all sides have as many, those that you left as they were take the new build's."""
    if not len(last) == len(mine) == len(new):
        return [*mine]
    return [theirs if own == before else own for before, own, theirs in zip(last, mine, new, strict=True)]


def _ended(lines: Sequence[str]) -> list[str]:
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _merge_values(last: Any, mine: Any, new: Any, conflicts: list[Any]) -> Any:
    """The merged value, or `_ABSENT`; where both sides changed it, the user's, which is added to `conflicts`."""
    if _same(mine, new) or _same(new, last):
        return mine
    if _same(mine, last):
        return new
    if isinstance(mine, Mapping) and isinstance(new, Mapping):
        return _merge_keys(last if isinstance(last, Mapping) else {}, mine, new, conflicts)
    conflicts.append(mine)
    return mine


def _merge_keys(
    last: Mapping[str, Any], mine: Mapping[str, Any], new: Mapping[str, Any], conflicts: list[Any]
) -> dict[str, Any]:
    """Keys in the order of the new build, the user's own after them."""
    merged = {
        key: _merge_values(*(side.get(key, _ABSENT) for side in (last, mine, new)), conflicts)
        for key in dict.fromkeys([*new, *mine])
    }
    return {key: value for key, value in merged.items() if value is not _ABSENT}


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON, where `true` is not 1 and 1.0 is not 1."""
    return one == other and repr(one) == repr(other)
