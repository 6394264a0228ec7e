"""Which files a path or glob of a recipe names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, takewhile
from os.path import normpath
from pathlib import Path

from msgspec import Struct

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]*[\w-]")  # owner/name
TEXT_ENDINGS = (".txt", ".md")  # of files that are one row each, as raw text
ENDINGS = (".jsonl", ".json", ".csv", ".parquet", *TEXT_ENDINGS)  # of files that can be read as rows
_RECORDS = ".recipec"  # the folder of a bundle that `recipec build` keeps its records in
MOST_LISTED = 10_000  # files below a folder that are looked at by their names


def may_be_on_hub(path: str) -> bool:
    """Whether what names no file here has the form of a data set of the Hub."""
    return bool(_HUB_ID.fullmatch(path)) and Path(path).suffix not in ENDINGS


class FoundFiles(Struct, frozen=True):
    """What a path or glob names below a folder, each in a stable order."""

    files: list[Path]
    of_bundles: list[Path]  # in bundles, which hold `.recipec/`: rows that one has prepared; a glob does not reach them
    gone: list[Path]  # links that lead to nothing, as before the files are fetched (DVC, git-annex)


def files_of(pattern: str, folder: Path) -> list[Path]:
    """Return the files that a path or glob names, relative to `folder`; none for what is neither."""
    return found_files(pattern, folder).files


def found_files(pattern: str, folder: Path) -> FoundFiles:
    """Look for what a path or glob names, relative to `folder`.

    A file of that very name is taken as it is, even if the name has the signs of a glob.
    """
    try:
        literal = folder / pattern
        if literal.is_file():
            return FoundFiles([literal], [], [])
        matched = _matching(Path(pattern), folder)
        found, named = [path for path in matched if path.is_file()], _named_folder(pattern, folder)
        inside = {at for at in {file.parent for file in found} if _is_in_bundle(at, named)}
        return FoundFiles(
            files=[file for file in found if file.parent not in inside],
            of_bundles=[file for file in found if file.parent in inside],
            gone=[path for path in matched if path.is_symlink() and not path.exists()],
        )
    except (OSError, ValueError, IndexError, NotImplementedError):  # names and globs that pathlib cannot take
        return FoundFiles([], [], [])


def reaches_down(pattern: str) -> bool:
    """Whether a glob may match files in folders that it does not name."""
    return any(is_glob(part) for part in Path(pattern).parts[:-1])


def is_glob(part: str) -> bool:
    """Whether a name has a sign of a glob."""
    return bool(set(part) & set("*?["))


def _named_folder(pattern: str, folder: Path) -> Path:
    """The folder that a glob names before its first sign."""
    return folder.joinpath(*takewhile(lambda part: not is_glob(part), Path(pattern).parts))


def _is_in_bundle(folder: Path, named: Path) -> bool:
    """Whether a folder below the one that a glob names is a bundle, or lies in one."""
    below = [folder, *folder.parents][: len(folder.parts) - len(named.parts)]
    return any((at / _RECORDS).is_dir() for at in below)


def walks_everything(pattern: str, folder: Path) -> bool:
    """Whether a glob goes down from the root of the file system: no name stands before its `**`."""
    parts = Path(pattern).parts
    if "**" not in parts or (folder / pattern).is_file():
        return False
    return normpath(_named_folder(pattern, folder)) == folder.absolute().anchor


def _matching(pattern: Path, folder: Path) -> list[Path]:
    """Match from the folder downwards, so that the signs of a glob in the folder's own path mean nothing.

    As in a shell, only a name of the glob that begins with a dot matches one that does.
    """
    base = Path(pattern.anchor) if pattern.anchor else folder
    matched = base.glob(str(pattern.relative_to(pattern.anchor)))
    return sorted(found for found in matched if _dots(found) == _dots(folder / pattern))


def _dots(path: Path) -> int:
    """How many names of the path begin with a dot."""
    return sum(part.startswith(".") for part in path.parts)


def globs_in(path: str, folder: Path) -> list[str] | None:
    """The globs of all data files in and below a folder that a path names; None for what is no folder.

    A path that ends with `**` names a folder, too.
    """
    named = path.rstrip("/").removesuffix("**").rstrip("/")
    shown = f"{named}/" if named or path.startswith("/") else ""
    try:
        if not (folder / shown).is_dir():
            return None
    except (OSError, ValueError):  # a name that no folder can have
        return None
    try:
        found = [file for file in islice((folder / shown).rglob("*"), MOST_LISTED) if file.suffix in ENDINGS]
        found = [file for file in found if file.is_file() and _dots(file) == _dots(folder / shown)]
    except OSError:
        return []
    below = "**/" if any(file.parent != folder / shown for file in found) else ""
    return [f"{shown}{below}*{ending}" for ending in sorted({file.suffix for file in found})]


def by_kind(globs: Sequence[str], folder: Path) -> list[str | list[str]]:
    """What names the files of each kind: a glob, or a list of them for text files of several endings beside others."""
    texts = [glob for glob in globs if glob.endswith(TEXT_ENDINGS)]
    if len(texts) < 2:
        return [*globs]
    whole = texts[0].removesuffix(Path(texts[0]).suffix)
    alone = all(file.suffix in TEXT_ENDINGS for file in files_of(whole, folder))
    return [*(glob for glob in globs if glob not in texts), whole if alone else texts]
