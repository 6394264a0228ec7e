"""Values that mark what they print, and the pass that turns the marks into a line map.

A mark is `U+E000 ids U+E001 text U+E002`. The characters are private use; the language refuses them in recipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unicodedata import combining, east_asian_width

OPEN, MIDDLE, CLOSE = "\ue000", "\ue001", "\ue002"
_TOKEN = re.compile(f"{OPEN}([^{MIDDLE}]*){MIDDLE}|{CLOSE}|\n|[^{OPEN}{MIDDLE}{CLOSE}\n]+")


class Raw(str):
    """Text of the output language itself (code, marked or not): printed as it is, never quoted."""

    __slots__ = ()


class Traced:
    """A value with the decision it came from; its parts carry the same decision."""

    __slots__ = ("id", "value")

    def __init__(self, value: Any, id: str) -> None:
        """`id` is one decision id, or several joined with commas."""
        inner = isinstance(value, Traced)
        self.value: Any = value.value if inner else value
        self.id: str = f"{value.id},{id}" if inner else id

    def __str__(self) -> str:
        return mark(self.id, str(self.value))

    def __repr__(self) -> str:
        return f"Traced({self.value!r}, {self.id!r})"

    def __bool__(self) -> bool:
        return bool(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Traced]:
        return (Traced(part, self.id) for part in self.value)

    def __contains__(self, part: Any) -> bool:
        return plain(part) in plain(self.value)

    def __getitem__(self, key: Any) -> Traced:
        return Traced(self.value[plain(key)], self.id)

    def __getattr__(self, name: str) -> Traced:
        if name.startswith("_"):
            raise AttributeError(name)
        return Traced(getattr(self.value, name), self.id)

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return plain(self.value) == plain(other)

    def __lt__(self, other: Any) -> bool:
        return self.value < plain(other)

    def __le__(self, other: Any) -> bool:
        return self.value <= plain(other)

    def __gt__(self, other: Any) -> bool:
        return self.value > plain(other)

    def __ge__(self, other: Any) -> bool:
        return self.value >= plain(other)


def plain(value: Any) -> Any:
    """`value` without traces, at any depth of lists, tuples and mappings."""
    if isinstance(value, Traced):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {plain(key): plain(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(part) for part in value)
    return value


def mark(ids: str, text: str) -> Raw:
    """`text` marked as printed because of `ids` (comma-separated)."""
    return Raw(f"{OPEN}{ids}{MIDDLE}{text}{CLOSE}")


def fragment(text: str, ids: Iterable[str]) -> Raw:
    """Code chosen in Python, credited to the decisions that chose it."""
    joined = ",".join(ids)
    return mark(joined, text) if joined else Raw(text)


def visible(marked: str) -> str:
    """The text as it will be written, without marks."""
    return split(marked)[0]


def columns(text: str) -> int:
    """How wide a line is shown, as ruff counts: letters of East Asian scripts take two columns, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(sign) else 1 + (east_asian_width(sign) in "WF") for sign in text)


def split(marked: str) -> tuple[str, dict[int, tuple[str, ...]]]:
    """Separate text from marks: every line between open and close belongs to the ids, the innermost first."""
    text: list[str] = []
    stack: list[list[str]] = []
    depths: dict[int, dict[str, int]] = {}
    line = 1
    for token in _TOKEN.finditer(marked):
        part = token[0]
        if part[0] == OPEN:
            stack.append([id for id in token[1].split(",") if id])
        elif part == CLOSE:
            assert stack, "a mark is closed that was not opened"
            stack.pop()
        else:
            text.append(part)
            _credit(depths, line, stack)
            line += part == "\n"
    assert not stack, f"the mark of {stack} is not closed"
    return "".join(text), {line: _innermost_first(found) for line, found in depths.items()}


def _credit(depths: dict[int, dict[str, int]], line: int, stack: list[list[str]]) -> None:
    for depth, ids in enumerate(stack):
        for id in ids:
            found = depths.setdefault(line, {})
            found[id] = max(depth, found.get(id, 0))


def _innermost_first(found: dict[str, int]) -> tuple[str, ...]:
    return tuple(sorted(found, key=lambda id: -found[id]))
