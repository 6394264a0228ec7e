"""Text as a terminal shows it: no control characters, and the columns that it takes."""

from __future__ import annotations

import re
import unicodedata

TAB = "    "
# Control and format characters (escape sequences, right-to-left overrides) must not act on the reader's terminal.
_ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def printable(text: str) -> str:
    """Return `text` with tabs expanded and every character that could act on a terminal written as an escape."""
    return _ACTIVE.sub(lambda match: f"\\u{{{ord(match.group()):x}}}", text.replace("\t", TAB))


def width(text: str) -> int:
    """Return the terminal columns that printable `text` takes: wide characters two, combining ones none."""
    return len(text) if text.isascii() else sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
