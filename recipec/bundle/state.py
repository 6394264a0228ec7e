"""What `.recipec/` remembers of the last build: the text of each file, as the base of the next merge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, field
from msgspec.json import decode

from recipec.bundle.paths import stays_inside
from recipec.files import read_regular

STATE = ".recipec"
LOCK, PLAN, SOURCE_MAP, LAST = f"{STATE}/lock.json", f"{STATE}/plan.json", f"{STATE}/source_map.json", f"{STATE}/last"
STAGING, NEXT, UNDO = f"{STATE}/next.tmp", f"{STATE}/next", f"{STATE}/undo"  # of a build at work, see write.py


class Lock(Struct, frozen=True):
    """What later commands read of `.recipec/lock.json`."""

    files: Mapping[str, str]  # path -> digest
    deleted: tuple[str, ...]
    name: str = ""
    kept: Mapping[str, str] = field(default_factory=dict)  # of files that are emitted no more, and were edited


MOST_BYTES = 64 * 2**20  # of a file of a bundle, also after edits


class LastBuild(Struct, frozen=True):
    """The files of the last build as they were emitted, and those whose deletion by the user was noted."""

    texts: Mapping[str, str] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    name: str = ""  # of the recipe; "" where the lock does not say
    digests: Mapping[str, str] = field(default_factory=dict)  # of the texts, as the lock has them


def read_last(out: Path) -> LastBuild | None:
    """What was built in `out` before, None when nothing was."""
    folder = out / LAST
    if not folder.is_dir():
        return None
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    texts = {path.relative_to(folder).as_posix(): read_text(path) or "" for path in files}
    lock = read_lock(out)
    return LastBuild(texts, lock.deleted, lock.name, {**lock.files, **lock.kept}) if lock else LastBuild(texts)


class Found(Struct, frozen=True):
    """A file as it was read once: what is compared, and by what it is known again when it is written."""

    text: str  # with `\\n` line ends; bytes that are not UTF-8 survive a round trip
    fingerprint: str  # of its bytes and of whether it can be executed
    executable: bool
    returns: int = 0  # lines that end in `\\r\\n`

    @property
    def crlf(self) -> bool:
        """Whether it has the line ends of Windows: most of its lines do."""
        return self.returns * 2 > self.text.count("\n")


def read_file(path: Path) -> Found | None:
    """The file at `path`, None when there is none. Raises OSError."""
    try:
        data, executable = read_regular(path, MOST_BYTES), bool(path.stat().st_mode & 0o100)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    return Found(text, sha256(data).hexdigest() + "+x" * executable, executable, data.count(b"\r\n"))


def read_text(path: Path) -> str | None:
    """A file's text with `\\n` line ends, None when there is no file. Raises OSError."""
    found = read_file(path)
    return found.text if found else None


def fingerprint(path: Path) -> str | None:
    """By what a file is known again, None when there is no file. Raises OSError."""
    found = read_file(path)
    return found.fingerprint if found else None


def dump_json(data: object) -> str:
    """Indented JSON with sorted keys: the same bytes for the same data."""
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def has_damaged_lock(out: Path) -> bool:
    """Whether there is a lock that cannot be read: then nothing says of which recipe the bundle is."""
    return (out / LOCK).exists() and read_lock(out) is None


def read_lock(out: Path) -> Lock | None:
    """The last lock; None where there is none that can be read, or one with paths outside the bundle."""
    try:
        lock = decode(read_regular(out / LOCK, MOST_BYTES), type=Lock)
    except (OSError, ValueError, RecursionError):
        return None
    return lock if all(map(stays_inside, (*lock.files, *lock.deleted, *lock.kept))) else None
