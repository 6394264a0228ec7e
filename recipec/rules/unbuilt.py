"""What recipec does not build, by the words that people type for it."""

from __future__ import annotations

from recipec.rules.unbuilt_of_books import OF_BOOKS, Unbuilt
from recipec.rules.unbuilt_of_tools import OF_TOOLS

UNBUILT: tuple[Unbuilt, ...] = (*OF_BOOKS, *OF_TOOLS)

_NAMED = {word: row for row in UNBUILT for word in row.words}


def unbuilt_named(word: str) -> Unbuilt | None:
    """Return the row that a word of a recipe or a command names, in any case; None if there is none."""
    return _NAMED.get(word.strip().strip("[]").lower().replace("-", "_").replace(" ", "_"))
