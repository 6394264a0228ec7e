"""A path that is right from the folder where recipec was started, and not from the recipe's folder."""

from __future__ import annotations

import os
from pathlib import Path

from recipec.dataset import files_of
from recipec.recipe.extends import is_path


def path_from_recipe(name: str, folder: Path) -> tuple[str, ...]:
    """What to write for a path that `folder`, the recipe's, does not have; () where the working folder has none either.

    Shells complete paths from the working folder, so people write these.
    """
    try:
        here = Path.cwd()
        found = (here / name).exists() or bool(set(name) & set("*?[") and files_of(name, here))
    except (OSError, ValueError):
        return ()
    if os.path.isabs(name) or not found or os.path.realpath(here) == os.path.realpath(folder):
        return ()
    seen = Path(os.path.relpath(here / name, folder)).as_posix()
    seen = f"./{seen}" if is_path(name) and not is_path(seen) else seen
    return (f"write `{seen}` instead of `{name}`: paths start at the recipe's folder, not at that of your shell",)
