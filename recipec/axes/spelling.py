"""How words are compared that people spell in several ways."""

from __future__ import annotations


def joined(word: str) -> str:
    """The word in lower case without hyphens, underscores and blanks: "ZeRO-3" and "zero_3" are "zero3"."""
    return "".join(letter for letter in word.lower() if letter not in "-_ ")
