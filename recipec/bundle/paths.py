"""Paths that a record names, or that were emitted: whether they stay inside the bundle."""

from __future__ import annotations

from pathlib import Path

_LONGEST = 255  # characters; a file system takes as much for one name


def stays_inside(path: str) -> bool:
    """Whether `path` is written as recipec writes one: relative, normal, plain ASCII that every file system takes."""
    plain = path.isascii() and path.isprintable() and len(path) <= _LONGEST
    return plain and not {"", ".", ".."} & set(path.split("/")) and not {"\\", ":"} & set(path)


def is_behind_link(out: Path, path: str) -> bool:
    """Whether `out`, the file or a folder between them is a symbolic link."""
    target = out / path
    inside = [target, *target.parents]
    return any(part.is_symlink() for part in inside[: inside.index(out) + 1])
