"""Whether a text says anything: a question or an answer of invisible characters alone is none.

The template data/rows.py.j2 has the same rule; tests/dataset/test_saying.py holds both together.
"""

from __future__ import annotations

from unicodedata import category

# General categories of Unicode: control and format characters, spaces, marks that need a letter to stand on.
_UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp", "Mn")
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # drawn as a space: Hangul fillers, empty Braille


def says(text: str) -> bool:
    """Whether a text has a character that can be seen."""
    return any(category(letter) not in _UNSEEN and letter not in _BLANK for letter in text)
