"""`.recipec/lock.json`: what went into a bundle and what came out, as digests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from msgspec import Struct, field

from recipec import __version__
from recipec.bundle.state import dump_json
from recipec.render.artifact import Rendered

SCHEMA_VERSION = 1


class LockInputs(Struct, frozen=True):
    """What a bundle was compiled from; paths are relative to the recipe's folder, digests are hexadecimal SHA-256."""

    recipes: Mapping[str, str] = field(default_factory=dict)  # the recipe and what it extends
    stack: Mapping[str, str] = field(default_factory=dict)  # package -> exact version
    name: str = ""  # of the recipe: a folder is the bundle of one


def lock_text(inputs: LockInputs, plan_json: bytes, files: Iterable[Rendered], deleted: Iterable[str] = ()) -> str:
    """The lock of a build: the same bytes for the same inputs."""
    return dump_json(
        {
            "schema_version": SCHEMA_VERSION,
            "recipec": __version__,
            "name": inputs.name,
            "recipes": dict(inputs.recipes),
            "stack": {"packages": dict(inputs.stack), "sha256": digest(dump_json(dict(inputs.stack)).encode())},
            "plan_sha256": digest(plan_json),
            "files": {file.path: digest(file.text.encode()) for file in files},
            "deleted": sorted(deleted),
        }
    )


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()
