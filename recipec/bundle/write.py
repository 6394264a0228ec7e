"""Write a set of files so that a reader of recipec sees all of them or none, wherever the process is killed.

A new folder is prepared beside its place and renamed: it is there whole or not at all. The folder that both lie in is
made first, because builds take turns by its lock. A mark is the first file of what is prepared, and the last that is
removed: what has no mark, and is not empty, no build made, and none deletes it.

In an existing folder the user has files of their own, so the files are switched one by one under a journal:

1. `.recipec/next.tmp/` takes the new files, copies of the old ones, and the journal: what each file was and will be.
2. It is renamed to `.recipec/next`. Before this rename nothing has happened; after it, the build will be finished.
3. Each new file is renamed to its place. On an error `next` is renamed to `undo` and the old files go back.
4. The folder of the journal is removed.

`recover` runs before a bundle is built and goes on where a killed process stopped. A file that is neither what
it was when it was compared nor what it will be was edited meanwhile: it stays, and so does the base of its next merge.
Safe against the death of the process, not of the machine: nothing is flushed to the disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, convert, to_builtins

from recipec.bundle.lock import amended, texts_of_last
from recipec.bundle.paths import is_behind_link, stays_inside
from recipec.bundle.state import LAST, LOCK, NEXT, STAGING, STATE, UNDO, fingerprint, read_text

_JOURNAL, _AMENDED = "journal.json", "lock.json"
_MARK, _WHOLE = "made-by-recipec", "bundle"  # in the folder where a new bundle is prepared


class File(Struct, frozen=True):
    """What a file will be, and what it was when that was decided: a file that is another one by then stays."""

    text: str | None  # None deletes
    executable: bool = False
    before: str | None = None  # its fingerprint; None for no file
    crlf: bool = False  # lines end in `\\r\\n`

    @property
    def data(self) -> bytes:
        """Its bytes."""
        text = self.text or ""
        return (text.replace("\n", "\r\n") if self.crlf else text).encode("utf-8", "surrogateescape")


class DamagedJournal(Exception):
    """A journal that no build wrote: its path, and what is wrong with it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why


class _Step(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One file of the journal with its fingerprints, None where there is no file."""

    path: str
    before: str | None
    after: str | None


def write_files(out: Path, files: Mapping[str, File]) -> tuple[str, ...]:
    """Write `files` into `out`; return those that were edited meanwhile and stay. Raises OSError."""
    if not out.exists():
        _create(out, files)
        return ()
    try:
        _stage(out, files)
    except OSError:
        _clear(out)
        raise
    return tuple(_finish(out))


def recover(out: Path) -> None:
    """Finish or take back what a killed build left in `out`, which the caller holds `exclusive`.

    Raises OSError and DamagedJournal.
    """
    check_journals(out)
    _remove_prepared(out)
    if (out / UNDO).exists():
        _take_back(out)
    if (out / NEXT).exists():
        _finish(out)
    _clear(out)


def is_interrupted(out: Path) -> bool:
    """Whether a killed build left something to finish, take back or clear away."""
    return any((out / folder).exists() for folder in (STAGING, NEXT, UNDO)) or _is_ours(_prepared(out))


def in_the_way(out: Path) -> str:
    """The name beside a new `out` that a build needs and something else has; "" where there is none."""
    prepared = _prepared(out)
    return prepared.name if os.path.lexists(prepared) and not (out.exists() or _is_ours(prepared)) else ""


@contextlib.contextmanager
def exclusive(out: Path, *, creates: bool = False) -> Iterator[None]:
    """Wait until no other recipec writes to `out`; a file system without locks is done without.

    `creates` makes the folders that `out` lies in, and takes those away again that stay empty. Raises OSError.
    """
    missing = [folder for folder in out.parents if not folder.exists()] if creates else []
    descriptor = None
    try:
        descriptor = _locked(out.parent, creates)
        yield
    finally:
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()
        if descriptor is not None:
            os.close(descriptor)


def _locked(folder: Path, creates: bool) -> int | None:
    """A descriptor that holds the lock of `folder`; None where there is no folder, or no lock, to have."""
    while True:
        if creates and not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
        except (OSError, ImportError):
            return None
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not creates or _is_still(folder, descriptor):
            return descriptor
        os.close(descriptor)


def _is_still(folder: Path, descriptor: int) -> bool:
    """Whether the folder was not taken away, and made anew, while its lock was waited for."""
    try:
        return os.path.samestat(os.stat(folder), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _prepared(out: Path) -> Path:
    """The folder that a new `out` is prepared in."""
    absolute = Path(os.path.abspath(out))
    return absolute.parent / f".{absolute.name}.recipec-tmp"


def _is_ours(prepared: Path) -> bool:
    """Whether a build made this folder; an empty one may be of a build that was killed before it set its mark."""
    if prepared.is_symlink() or not prepared.is_dir():
        return False
    return (prepared / _MARK).is_file() or not any(prepared.iterdir())


def _remove_prepared(out: Path) -> None:
    prepared = _prepared(out)
    if _is_ours(prepared):
        with contextlib.suppress(OSError):  # the mark stays with whatever stays
            if (prepared / _WHOLE).exists():
                shutil.rmtree(prepared / _WHOLE)
            (prepared / _MARK).unlink(missing_ok=True)
            prepared.rmdir()


def _create(out: Path, files: Mapping[str, File]) -> None:
    prepared = _prepared(out)
    _remove_prepared(out)
    prepared.mkdir()  # fails where something else stands in its place
    try:
        (prepared / _MARK).touch()
        for path, file in files.items():
            _write(prepared / _WHOLE / path, file)
        os.rename(prepared / _WHOLE, out)
    finally:
        _remove_prepared(out)


def _stage(out: Path, files: Mapping[str, File]) -> None:
    staging = out / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    steps = [_stage_file(out, staging, path, file) for path, file in files.items()]
    (staging / _JOURNAL).write_text(json.dumps(to_builtins(steps)), encoding="utf-8")
    os.rename(staging, out / NEXT)


def _stage_file(out: Path, staging: Path, path: str, file: File) -> _Step:
    target, new, old = out / path, staging / "new" / path, staging / "old" / path
    if target.exists():
        old.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(target, old)
    if file.text is not None:
        _write(new, file, like=old)
    return _Step(path, file.before, fingerprint(new))


def _write(path: Path, file: File, like: Path | None = None) -> None:
    """Write a file with the mode of `like` where that exists, and executable where it must be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)
    if like and like.exists():
        shutil.copymode(like, path)
    if file.executable:
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o444) >> 2)


def _finish(out: Path) -> list[str]:
    """Switch to the new files but those that were edited meanwhile; on an error back to the old ones."""
    try:
        edited = _switch_all(out)
        _note_waiting(out, edited)
    except OSError:
        os.rename(out / NEXT, out / UNDO)
        _take_back(out)
        raise
    _discard(out / NEXT)
    return edited


def _switch_all(out: Path) -> list[str]:
    """Switch to the new files; while an edited one waits for the next build, the base of its merge does too."""
    edited: list[str] = []
    for step in _steps(out, NEXT):
        waits = step.path.removeprefix(f"{LAST}/") in edited
        if not waits and not _switch(out, step, out / NEXT / "new"):
            edited.append(step.path)
    return edited


def _note_waiting(out: Path, edited: list[str]) -> None:
    """Where the base of a merge waits, the lock has its digest."""
    lock = amended(out, texts_of_last(out, edited)) if edited else ""
    if lock and lock != read_text(out / LOCK):
        (out / NEXT / _AMENDED).write_text(lock, encoding="utf-8", newline="\n")
        os.replace(out / NEXT / _AMENDED, out / LOCK)


def _take_back(out: Path) -> None:
    for step in _steps(out, UNDO):
        _switch(out, _Step(step.path, before=step.after, after=step.before), out / UNDO / "old")
    _discard(out / UNDO)


def check_journals(out: Path) -> None:
    """Read what a killed build left in `out`; raises DamagedJournal."""
    for folder in (UNDO, NEXT):
        _steps(out, folder)


def _steps(out: Path, folder: str) -> list[_Step]:
    """The journal; none once it is removed, which is the last thing that counts. Raises DamagedJournal."""
    journal = out / folder / _JOURNAL
    if not journal.exists():
        return []
    try:
        steps = convert(json.loads(journal.read_bytes()), list[_Step])
    except (ValueError, RecursionError, IsADirectoryError) as error:
        raise DamagedJournal(folder, f"was left by an interrupted build, and its {_JOURNAL} cannot be read") from error
    outside = [step.path for step in steps if not stays_inside(step.path)]
    if outside:
        raise DamagedJournal(folder, f"has a {_JOURNAL} that names `{outside[0]}`, which is no file of a bundle")
    return steps


def _switch(out: Path, step: _Step, source: Path) -> bool:
    """Bring one file from `before` to `after`, as often as asked; False when the user has changed it meanwhile."""
    target = out / step.path
    if is_behind_link(out, step.path):
        return False
    if step.before is None and step.after:
        target.parent.mkdir(parents=True, exist_ok=True)
    now = fingerprint(target)  # the last thing before the change, which it allows
    if now == step.after:
        return True
    if now != step.before or (step.after and not (source / step.path).exists()):
        return False
    if step.after is None:
        target.unlink()
        _remove_empty_folders(out, target.parent)
    else:
        os.replace(source / step.path, target)
    return True


def _discard(folder: Path) -> None:
    """Remove a finished journal; one that stays is found finished by the next `recover`."""
    with contextlib.suppress(OSError):
        (folder / _JOURNAL).unlink(missing_ok=True)
        shutil.rmtree(folder)


def _clear(out: Path) -> None:
    """Remove what was only prepared."""
    shutil.rmtree(out / STAGING, ignore_errors=True)
    _remove_empty_folders(out, out / STATE)


def _remove_empty_folders(out: Path, folder: Path) -> None:
    with contextlib.suppress(OSError):
        while folder != out:
            folder.rmdir()
            folder = folder.parent
