"""Facts are decisions that nobody took: the recipe states them, the catalog knows them or the data show them."""

from __future__ import annotations

from typing import Any

from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision


def stated(
    loaded: LoadedRecipe, id: str, value: Any, *path: str, absent: str = "", origin: str = "default"
) -> Decision:
    """A fact that the recipe states at `path`; `absent` and `origin` explain the value where the recipe is silent."""
    key = ".".join(path)
    if loaded.is_set(*path):
        where = loaded.where(*path)
        return Decision(id, value, f"set in {where}", origin="recipe", key=key, where=where)
    return Decision(id, value, absent or f"{key} is not set", origin=origin, key=key)


def known(id: str, value: Any, because: str, *inputs: str, source: str = "", origin: str = "catalog") -> Decision:
    """A fact from the catalog, or computed from other facts."""
    return Decision(id, value, because, inputs=inputs, origin=origin, source=source)
