"""Which files a path or glob of a recipe names."""

from __future__ import annotations

import re
from itertools import takewhile
from os.path import normpath
from pathlib import Path

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]*[\w-]")  # owner/name
ENDINGS = (".jsonl", ".json", ".csv", ".parquet", ".txt")  # of files that can be read as rows


def may_be_on_hub(path: str) -> bool:
    """Whether what names no file here has the form of a data set of the Hub."""
    return bool(_HUB_ID.fullmatch(path)) and Path(path).suffix not in ENDINGS


def files_of(pattern: str, folder: Path) -> list[Path]:
    """Return the files that a path or glob names, relative to `folder`, in a stable order; none for what is neither.

    A file of that very name is taken as it is, even if the name has the signs of a glob.
    """
    try:
        literal = folder / pattern
        return [literal] if literal.is_file() else _matching(Path(pattern), folder)
    except (OSError, ValueError, IndexError, NotImplementedError):  # names and globs that pathlib cannot take
        return []


def walks_everything(pattern: str, folder: Path) -> bool:
    """Whether a glob goes down from the root of the file system: no name stands before its `**`."""
    parts = Path(pattern).parts
    if "**" not in parts or (folder / pattern).is_file():
        return False
    named = [*takewhile(lambda part: not set(part) & set("*?["), parts)]
    return normpath(folder.joinpath(*named)) == folder.absolute().anchor


def _matching(pattern: Path, folder: Path) -> list[Path]:
    """Match from the folder downwards, so that the signs of a glob in the folder's own path mean nothing."""
    base = Path(pattern.anchor) if pattern.anchor else folder
    return sorted(found for found in base.glob(str(pattern.relative_to(pattern.anchor))) if found.is_file())


def endings_in(pattern: str, folder: Path) -> list[str] | None:
    """The endings of the data files in a folder that a path names; None where it names no folder."""
    try:
        found = list((folder / pattern).iterdir())
    except (OSError, ValueError):
        return None
    return sorted({file.suffix for file in found if file.suffix in ENDINGS and file.is_file()})
