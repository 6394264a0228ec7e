"""What no text of recipec may say, and how a reason must not read."""

from __future__ import annotations

import re
from typing import Any

from recipec.units import value_text

CODE = re.compile(r"`[^`]*`")  # keys are spelt as they are
BOOKS = re.compile(
    r"[Rr]ule\s+books?\s+00\d(?:(?:,|\s+and)\s+00\d)*|\| 00\d"
)  # in a sentence, and in a table of rule books
FAULTS = {
    "private": re.compile(r"\b(our (decision|choice)|seeds?[ -]rows?|the books?|we|us)\b|from here|without a word"),
    "a rule book by its bare number": re.compile(r"(?<![\w,./-])00[0-4]\b"),
    "an old word": re.compile(r"CPU memory|the pinned stack|quantised|recomputation|\bcards?\b|asks? for"),
    "British": re.compile(r"(?i)\b(licences?|tokenis|behaviour|colour|utilis|optimis|memoris|normalis)"),
    "a space before %": re.compile(r"\d %"),
}
OF_REASONS = {
    "a rule book": re.compile(r"rule book"),
    "a forced number": re.compile(
        r"\b0 (account|server|pair|turn|padding|stage|model|template|token|kernel|other)|\b0\.0+B\b|(?<![\w.])1 x |"
        r"\b1 (account|server|pair|turn)s?\b"
    ),
}


def faults(text: str) -> list[str]:
    """What is wrong with a text that a user reads; empty where nothing is."""
    return _found(FAULTS, BOOKS.sub("rule book", CODE.sub("`key`", text)))


def faults_of_a_reason(value: Any, because: str) -> list[str]:
    """What is wrong with the reason of a value."""
    first = because.split()[0].rstrip(":,;")
    repeated = not isinstance(value, bool) and first in (str(value), value_text(value))
    return [*faults(because), *_found(OF_REASONS, because), *["it repeats the value"] * repeated]


def _found(patterns: dict[str, re.Pattern[str]], text: str) -> list[str]:
    return [f"{name}: {hit[0]!r}" for name, pattern in patterns.items() if (hit := pattern.search(text))]
