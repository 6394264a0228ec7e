"""The recipe language: TOML with positions, `extends`, the schema, and the checks across keys."""

from recipec.recipe.document import Located
from recipec.recipe.load import LoadedRecipe, load_recipe
from recipec.recipe.schema import Recipe

__all__ = ["LoadedRecipe", "Located", "Recipe", "load_recipe"]
