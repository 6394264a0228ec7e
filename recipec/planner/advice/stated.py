"""A recipe that states of its nodes what is assumed of them, or stated otherwise."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.recipe import LoadedRecipe


def stating(loaded: LoadedRecipe, **hardware: float) -> LoadedRecipe:
    """The recipe with other values of keys in [hardware]."""
    changed = loaded.recipe.hardware.model_copy(update=hardware)
    return replace(loaded, recipe=loaded.recipe.model_copy(update={"hardware": changed}))
