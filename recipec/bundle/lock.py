"""`.recipec/lock.json`: what went into a bundle and what came out, as digests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, field

from recipec import __version__
from recipec.bundle.state import LAST, LOCK, LastBuild, dump_json, read_lock, read_text
from recipec.render.artifact import Rendered

SCHEMA_VERSION = 1


class LockInputs(Struct, frozen=True):
    """What a bundle was compiled from; paths are relative to the recipe's folder, digests are hexadecimal SHA-256."""

    recipes: Mapping[str, str] = field(default_factory=dict)  # the recipe and what it extends
    stack: Mapping[str, str] = field(default_factory=dict)  # package -> exact version
    name: str = ""  # of the recipe: a folder is the bundle of one


def lock_text(
    inputs: LockInputs,
    plan_json: bytes,
    files: Iterable[Rendered],
    deleted: Iterable[str] = (),
    kept: Mapping[str, str] | None = None,
) -> str:
    """The lock of a build: the same bytes for the same inputs. `kept` are texts of earlier builds for later merges."""
    orphans = {"kept": {path: digest_of(text) for path, text in kept.items()}} if kept else {}
    return dump_json(
        {
            "schema_version": SCHEMA_VERSION,
            "recipec": __version__,
            "name": inputs.name,
            "recipes": dict(inputs.recipes),
            "stack": {"packages": dict(inputs.stack), "sha256": digest(dump_json(dict(inputs.stack)).encode())},
            "plan_sha256": digest(plan_json),
            "files": {file.path: digest_of(file.text) for file in files},
            "deleted": sorted(deleted),
            **orphans,
        }
    )


def amended(out: Path, texts: Mapping[str, str | None]) -> str:
    """The lock in `out` with the digests of texts that merges start from now; "" where no build left a lock."""
    if read_lock(out) is None:
        return ""
    lock = json.loads(read_text(out / LOCK) or "")
    found = {path: digest_of(text) for path, text in texts.items() if path in lock["files"] and text is not None}
    return dump_json(lock | {"files": lock["files"] | found})


def texts_of_last(out: Path, paths: Iterable[str]) -> dict[str, str | None]:
    """The texts of these files from which their next merges start; None where there is none."""
    return {path: read_text(out / LAST / path) for path in paths}


def changed_texts(last: LastBuild) -> list[str]:
    """The files whose text from the last build is not the one that the lock has the digest of."""
    return [path for path, text in last.texts.items() if last.digests.get(path) not in (None, digest_of(text))]


def digest_of(text: str) -> str:
    """SHA-256 of a file of this text."""
    return digest(text.encode("utf-8", "surrogateescape"))


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()
