"""Which characters may reach an output file, and how those that do not show are written."""

from __future__ import annotations

import re
from collections.abc import Callable
from unicodedata import category

_SHORT = {"\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_SPACE = re.compile(r"[ \t\n]+")


def checked(text: str) -> str:
    """`text`, which the recipe language has already cleared of what no output may hold."""
    assert text.isprintable() or all(map(is_allowed, text)), f"{text!r} holds a character that recipes refuse"
    return text


def is_allowed(character: str) -> bool:
    """Whether a recipe may hold it: not controls but newline and tab, surrogates, private use and noncharacters."""
    code = ord(character)
    nonchar = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return character in "\n\t" or not (nonchar or category(character) in ("Cc", "Cs", "Co"))


def escaped(text: str, quote: str, hidden: Callable[[str], str]) -> str:
    """The inside of a quoted literal: backslash, `quote`, newline and tab escaped, what does not show by `hidden`."""
    return "".join(
        "\\" + c if c == quote else _SHORT.get(c) or (c if c.isprintable() else hidden(c)) for c in checked(text)
    )


def shown(text: str, hidden: Callable[[str], str]) -> str:
    """`text` on one line with runs of white space as one space, and what does not show by `hidden`."""
    line = _SPACE.sub(" ", checked(text)).strip(" ")
    return "".join(c if c.isprintable() else hidden(c) for c in line)


def long_escape(character: str) -> str:
    """`\\u202e` or `\\U000e0001`, as Python and YAML read it."""
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def utf16_escape(character: str) -> str:
    """`\\u202e`, or a surrogate pair above U+FFFF, as JSON reads it."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
