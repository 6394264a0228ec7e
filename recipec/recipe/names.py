"""A valid name of a recipe for a text that is none."""

from __future__ import annotations

import re
from unicodedata import normalize

_LONGEST = 63  # letters, as fields.RECIPE_NAME has it


def as_name(text: str) -> str:
    """The nearest name that a recipe may have: "My Recipe" becomes "my-recipe"; "" where no letter or digit is left."""
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:_LONGEST].rstrip("-._")
