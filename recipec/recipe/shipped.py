"""The recipes that come with recipec."""

from __future__ import annotations

from pathlib import Path

import recipec


def shipped_recipes_folder() -> Path:
    """Return the folder of the shipped recipes: inside the installed package, or `recipes/` of the repository."""
    package = Path(recipec.__file__).parent
    installed = package / "_recipes"
    return installed if installed.is_dir() else package.parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """Return the shipped recipes by name."""
    return {path.stem: path for path in sorted(shipped_recipes_folder().glob("*.toml"))}
