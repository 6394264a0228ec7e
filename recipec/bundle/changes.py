"""Compare a new build with the disk and the last build: what to do with each file, and why."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from enum import StrEnum
from itertools import chain, count
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from recipec.bundle.merge import has_markers, merge_json, merge_text
from recipec.bundle.state import Found, LastBuild, read_file, read_text
from recipec.render.artifact import Rendered

_SAME = "you and the new build changed the same {}: yours are kept"
_MADE_RUNNABLE = "Windows line ends removed, with which bash cannot run it"


class Action(StrEnum):
    """What a build does with one file."""

    CREATE = "create"
    OVERWRITE = "overwrite"
    UNCHANGED = "unchanged"
    KEEP_EDIT = "keep-user-edit"
    MERGE = "merge"
    CONFLICT = "conflict"
    STAYS_DELETED = "stays-deleted"
    REFUSE = "refuse-foreign"
    DELETE = "delete"
    KEEP_ORPHAN = "keep-orphan"


class OnConflict(StrEnum):
    """What to do where the user and the new build changed the same lines."""

    MARKERS = "markers"
    KEEP = "keep"
    FAIL = "fail"


class FileChange(Struct, frozen=True):
    """One file, what happens to it, a word to the user, its new text when it is written, and what was there."""

    path: str
    action: Action
    note: str = ""
    text: str | None = None
    executable: bool = False
    unresolved: bool = False  # the markers of an earlier conflict are still there
    found: Found | None = None  # the file that was compared

    @property
    def crlf(self) -> bool:
        """Whether it is written with the line ends of Windows, as it was found; a script never is."""
        return self.found is not None and self.found.crlf and not self.executable


def compare(
    out: Path,
    files: Iterable[Rendered],
    last: LastBuild,
    on_conflict: OnConflict = OnConflict.MARKERS,
    force: bool = False,
    restore: Collection[str] = (),
) -> list[FileChange]:
    """All changes that bring `out` from the last build to `files`.

    `force` gives up the user's edits and deletions of all files, `restore` those of the files that it names.
    """
    emitted = {file.path: file for file in files}
    given_up = [(file, force or file.path in restore) for file in emitted.values()]
    changes = [change for file, up in given_up for change in _file_changes(out, file, last, on_conflict, up)]
    orphans = [_orphan(out, path, text, emitted) for path, text in last.texts.items() if path not in emitted]
    return changes + [change for change in orphans if change]


def _file_changes(out: Path, file: Rendered, last: LastBuild, on_conflict: OnConflict, force: bool) -> list[FileChange]:
    target = out / file.path
    if (target.exists() and not target.is_file()) or not _has_room(out, target):
        return [FileChange(file.path, Action.REFUSE, "blocked by an existing folder, pipe or file")]
    disk, built = read_file(target), last.texts.get(file.path)
    if disk is None:
        return [_missing(file, last, force)]
    if disk.text == file.text:
        return [_identical(file, disk)]
    if built is None:
        return [FileChange(file.path, Action.REFUSE, "exists and was not written by recipec")]
    if disk.text == built or force:
        return [_write(file, Action.OVERWRITE, disk, "" if disk.text == built else "your edit is discarded")]
    return _edited(out, file, disk, built, on_conflict)


def _has_room(out: Path, target: Path) -> bool:
    """Whether no file stands where a folder on the way to `target` must be."""
    return not any(parent.is_file() for parent in target.parents if parent != out and parent.is_relative_to(out))


def _missing(file: Rendered, last: LastBuild, force: bool) -> FileChange:
    if file.path not in last.texts or force:
        return _write(file, Action.CREATE, None)
    note = "" if file.path in last.deleted else f"deleted by you; restore it with --restore {file.path}"
    return FileChange(file.path, Action.STAYS_DELETED, note)


def _identical(file: Rendered, disk: Found) -> FileChange:
    if file.executable and not disk.executable:
        return _write(file, Action.OVERWRITE, disk, "made executable")
    if file.executable and disk.returns:
        return _write(file, Action.OVERWRITE, disk, _MADE_RUNNABLE)
    return FileChange(file.path, Action.UNCHANGED)


def _edited(out: Path, file: Rendered, disk: Found, built: str, on_conflict: OnConflict) -> list[FileChange]:
    """The file as the user edited it, when the new build is another text."""
    if has_markers(disk.text):
        return [
            FileChange(
                file.path, Action.CONFLICT, "still contains conflict markers of an earlier build", unresolved=True
            )
        ]
    if file.text == built and file.executable and disk.returns:
        return [_write(file, Action.MERGE, disk, f"your edits are kept; {_MADE_RUNNABLE}", disk.text)]
    if file.text == built:
        return [FileChange(file.path, Action.KEEP_EDIT)]
    if file.path.endswith(".json"):
        return _edited_json(out, file, disk, built, on_conflict)
    merged = merge_text(built, disk.text, file.text, keep=on_conflict is not OnConflict.MARKERS)
    if not merged.conflicts:
        return [_write(file, Action.MERGE, disk, text=merged.text)]
    places = f"{merged.conflicts} place{'s' * (merged.conflicts > 1)}"
    note = f"markers in {places}" if on_conflict is OnConflict.MARKERS else f"{_SAME.format('lines')} in {places}"
    return [_write(file, Action.CONFLICT, disk, note, merged.text)]


def _edited_json(out: Path, file: Rendered, disk: Found, built: str, on_conflict: OnConflict) -> list[FileChange]:
    """JSON has no place for markers: what does not merge by key stays, with the new build beside it."""
    try:
        merged = merge_json(built, disk.text, file.text)
    except ValueError as error:
        why, text = f"your version is not JSON that can be merged ({error}), and is kept", None
    else:
        why, text = _SAME.format("values"), _as_lines_merge(file, disk.text, built, merged.text)
        if not merged.conflicts:
            return [_write(file, Action.MERGE, disk, text=text)]
    change = FileChange(file.path, Action.CONFLICT, why, text, file.executable, found=disk)
    if on_conflict is not OnConflict.MARKERS:
        return [change]
    beside, found = _beside(out, file, built)
    return [
        replace(change, note=f"{why}, the new build is in {beside}"),
        FileChange(beside, Action.OVERWRITE if found else Action.CREATE, text=file.text, found=found),
    ]


def _beside(out: Path, file: Rendered, built: str) -> tuple[str, Found | None]:
    """A name for the new build beside the user's file, and what a build has put there before."""
    names = (f"{file.path}.new{number}" for number in chain([""], count(2)))
    path = next(name for name in names if _is_free(out / name, (built, file.text)))
    return path, read_file(out / path)


def _is_free(target: Path, ours: tuple[str, ...]) -> bool:
    """Whether nothing of the user's is there."""
    if not os.path.lexists(target):
        return True
    return target.is_file() and not target.is_symlink() and read_text(target) in ours


def _as_lines_merge(file: Rendered, disk: str, built: str, merged: str) -> str:
    """The merge by lines where it says the same as the merge by keys, because it keeps the user's layout."""
    import json

    lines = merge_text(built, disk, file.text, keep=True)
    try:
        return lines.text if json.loads(lines.text) == json.loads(merged) else merged
    except ValueError:
        return merged


def _orphan(out: Path, path: str, built: str, emitted: Iterable[str]) -> FileChange | None:
    """A file of the last build that this one does not emit; one of its name may do its work now, without the edits."""
    disk = read_file(out / path)
    if disk is None:
        return None
    if disk.text == built:
        return FileChange(path, Action.DELETE, "no longer part of the bundle", found=disk)
    name = PurePosixPath(path).name
    heirs = " or ".join(other for other in emitted if PurePosixPath(other).name == name)
    note = "no longer part of the bundle, kept because you edited it" + f"; your edits are not in {heirs}" * bool(heirs)
    return FileChange(path, Action.KEEP_ORPHAN, note)


def _write(file: Rendered, action: Action, disk: Found | None, note: str = "", text: str | None = None) -> FileChange:
    return FileChange(file.path, action, note, file.text if text is None else text, file.executable, found=disk)
