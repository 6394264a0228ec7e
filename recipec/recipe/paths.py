"""Re-express the paths of an extended recipe relative to the folder of the recipe that extends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_DATA_KEYS = ("train", "preferences", "eval", "test")
_NAME_OR_PATH = (("model", "name"), ("model", "like"), ("data", "template"))
_PATH_PREFIXES = ("./", "../", "/")


def is_path(text: str) -> bool:
    """Tell a path from a name, where either could stand."""
    return text.startswith(_PATH_PREFIXES)


def relative_to(folder: Path, path: Path) -> str:
    """Return `path` as seen from `folder`, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


def rebased(data: dict[str, Any], origin: Path, target: Path) -> dict[str, Any]:
    """Return `data` with the relative paths that were written in folder `origin` rewritten for folder `target`."""

    def move(path: str) -> str:
        return path if os.path.isabs(path) else relative_to(target, origin / path)

    def move_if_path(text: str) -> str:
        if not is_path(text):
            return text
        moved = move(text)
        return moved if is_path(moved) else f"./{moved}"

    data = {name: dict(section) if isinstance(section, dict) else section for name, section in data.items()}
    for section, name in _NAME_OR_PATH:
        _apply(data, section, name, lambda value: move_if_path(value) if isinstance(value, str) else value)
    _apply(data, "budget", "prices", lambda value: move(value) if isinstance(value, str) else value)
    for name in _DATA_KEYS:
        _apply(data, "data", name, lambda value: _moved_sources(value, move))
    return data


def _apply(data: dict[str, Any], section: str, name: str, change: Callable[[Any], Any]) -> None:
    table = data.get(section)
    if isinstance(table, dict) and name in table:
        table[name] = change(table[name])


def _moved_sources(value: Any, move: Callable[[str], str]) -> Any:
    """Move a data statement of any shape; what has none of the shapes is left for validation to refuse."""
    if isinstance(value, str):
        return move(value)
    if isinstance(value, list):
        return [_moved_sources(entry, move) for entry in value]
    if isinstance(value, dict) and isinstance(value.get("path"), str):
        return {**value, "path": move(value["path"])}
    return value
