"""Map every key path of a TOML document to where it was written.

The text must already have been accepted by tomllib: this is a locator, not a validator, so it takes the shortest
route through valid TOML. Columns count characters, not bytes.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from recipec.diagnostics.model import Span

KeyPath = tuple[str | int, ...]


class Spans(NamedTuple):
    """Where a key and its value sit; for a table header both are the header, for a list entry both are the entry.

    A table that `[a.b]` makes on the way, here `a`, sits at that header too.
    """

    key: Span
    value: Span


_BLANKS = re.compile(r"[ \t]*")
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*'""")
_VALUE = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:""?(?!"))?|'''  # up to two quotes may precede the closing three
    r"""'''.*?'''(?:''?(?!'))?|"""
    r""""(?:\\.|[^"\\])*"|'[^']*'|[^,\]}#\n]+""",
    re.DOTALL,
)


def locate(text: str) -> dict[KeyPath, Spans]:
    """Return the key and value span of every path in `text`, which must be valid TOML."""
    return _Locator(text).run()


class _Locator:
    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self.entries: dict[KeyPath, Spans] = {}
        self.last_index: dict[KeyPath, int] = {}  # array of tables -> the element being filled
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def run(self) -> dict[KeyPath, Spans]:
        table: KeyPath = ()
        self.skip(_TRIVIA)
        while self.offset < len(self.text):
            if self.text[self.offset] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_TRIVIA)
        return self.entries

    def header(self) -> KeyPath:
        start = self.offset
        brackets = 2 if self.text.startswith("[[", start) else 1
        self.offset += brackets
        keys = [key for key, _ in self.dotted_key()]
        self.offset += brackets
        path = self.resolve(keys, appends=brackets == 2)
        entry = Spans(self.span(start), self.span(start))
        for depth in range(1, len(path)):  # tables that have no header of their own
            self.entries.setdefault(path[:depth], entry)
        self.entries[path] = entry
        return path

    def resolve(self, keys: list[str], *, appends: bool) -> KeyPath:
        """Insert the current element's index after each array of tables on the way."""
        path: KeyPath = ()
        for depth, key in enumerate(keys, 1):
            path += (key,)
            if appends and depth == len(keys):
                self.last_index[path] = self.last_index.get(path, -1) + 1
            if path in self.last_index:
                path += (self.last_index[path],)
        return path

    def pair(self, table: KeyPath) -> None:
        keys = self.dotted_key()
        path = table
        for key, span in keys[:-1]:
            path += (key,)
            self.entries.setdefault(path, Spans(span, span))
        self.offset += 1  # the "="
        self.skip(_BLANKS)
        path += (keys[-1][0],)
        whole_key = Span(*keys[0][1][:2], *keys[-1][1][2:])
        self.entries[path] = Spans(whole_key, self.value(path))

    def dotted_key(self) -> list[tuple[str, Span]]:
        keys = []
        while True:
            self.skip(_BLANKS)
            start = self.offset
            raw = self.skip(_KEY)
            keys.append((_unquoted(raw), self.span(start)))
            self.skip(_BLANKS)
            if self.text[self.offset] != ".":
                return keys
            self.offset += 1

    def value(self, path: KeyPath) -> Span:
        start = self.offset
        if self.text[start] == "[":
            self.items("]", lambda index: self.array_item((*path, index)))
        elif self.text[start] == "{":
            self.items("}", lambda _: self.pair(path))
        else:
            self.offset = start + len(self.skip(_VALUE).rstrip())
        return self.span(start)

    def array_item(self, path: KeyPath) -> None:
        span = self.value(path)
        self.entries[path] = Spans(span, span)

    def items(self, close: str, read: Callable[[int], None]) -> None:
        """Read the entries of an array or inline table up to `close`."""
        self.offset += 1
        index = 0
        self.skip(_TRIVIA)
        while self.text[self.offset] != close:
            read(index)
            index += 1
            self.skip(_TRIVIA)
            if self.text[self.offset] == ",":
                self.offset += 1
                self.skip(_TRIVIA)
        self.offset += 1

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.offset)
        assert match, f"not TOML at offset {self.offset}"
        self.offset = match.end()
        return match.group()

    def span(self, start: int) -> Span:
        return Span(*self.position(start), *self.position(self.offset))

    def position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1


def _unquoted(raw: str) -> str:
    return tomllib.loads(f"k = {raw}")["k"] if raw[0] in "\"'" else raw


def dotted(path: Iterable[str | int]) -> str:
    """Return a key path as a reader would write it: `data.train[2].weight`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
