"""Facts are decisions that nobody took: the recipe states them, the catalog knows them or the data show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipec.diagnostics.model import Diagnostic, Label
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


def short_name(loaded: LoadedRecipe, path: tuple[str, ...], taken: str, others: Sequence[str]) -> Diagnostic:
    """A name that several entries of the catalog begin with (W0512): which of them is taken."""
    label = Label(loaded.place(*path), f"could also be {', '.join(others)}")
    help = (f'set `{".".join(path)} = "{taken}"`, or name the one that is meant',)
    return Diagnostic("W0512", f"`{loaded.value(*path)}` is taken to be {taken}", (label,), help)


def known(id: str, value: Any, because: str, *inputs: str, source: str = "", origin: str = "catalog") -> Decision:
    """A fact from the catalog, or computed from other facts."""
    return Decision(id, value, because, inputs=inputs, origin=origin, source=source)
