"""Which characters no text of a recipe may hold, and no name that emitted files write."""

from __future__ import annotations

import re

_PRIVATE_USE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"  # without tab and newline
_INVISIBLE = "\u2028-\u202e\u2066-\u2069\ufeff"  # line and direction marks
_NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    f"{chr((plane << 16) + 0xFFFE)}{chr((plane << 16) + 0xFFFF)}" for plane in range(17)
)
_SURROGATES = "\ud800-\udfff"  # in file names: bytes that are not UTF-8

_REASONS = {
    f"[{_PRIVATE_USE}]": "private-use characters have no standard meaning",
    f"[{_CONTROLS}\t\n]": "control characters break the files that this text is written into",
    f"[{_INVISIBLE}]": "invisible line and direction marks can disguise text",
    f"[{_NONCHARACTERS}]": "noncharacters are not text",
    f"[{_SURROGATES}]": "bytes that are not UTF-8 are not text",
}
_IN_STRINGS = re.compile(f"[{_CONTROLS}{_INVISIBLE}{_PRIVATE_USE}{_NONCHARACTERS}{_SURROGATES}]")
_IN_NAMES = re.compile(f"[\t\n{_CONTROLS}{_INVISIBLE}{_PRIVATE_USE}{_NONCHARACTERS}{_SURROGATES}]")


def forbidden_in_string(text: str) -> str | None:
    """Return the first character that a string must not hold."""
    return _first(_IN_STRINGS, text)


def forbidden_in_name(name: str) -> str | None:
    """Return the first character that the name of a column or of a recipe file must not hold: emitted files name it."""
    return _first(_IN_NAMES, name)


def why_forbidden(character: str) -> str:
    """Return what is wrong with a forbidden character."""
    return next(reason for pattern, reason in _REASONS.items() if re.match(pattern, character))


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found.group() if found else None
