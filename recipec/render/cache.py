"""Compiled templates are kept in the user's cache folder, which may be missing or read-only."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from zlib import crc32

from jinja2 import FileSystemBytecodeCache
from jinja2 import __version__ as jinja_version
from jinja2.bccache import Bucket

from recipec import __version__


class _SilentCache(FileSystemBytecodeCache):
    """Does without what it cannot read or write."""

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def bytecode_cache() -> FileSystemBytecodeCache | None:
    """The cache for this version of recipec, jinja2 and Python; None when its folder cannot be made."""
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: no home
        return None
    return _SilentCache(str(folder))


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    tag = f"{__version__}-{_compiled_by():08x}-{jinja_version}-py{sys.version_info.major}{sys.version_info.minor}"
    return Path(home) / "recipec" / tag


def _compiled_by() -> int:
    """A checksum of the code that changes what templates compile to, so that work on it never meets a stale cache."""
    here = Path(__file__).parent
    return crc32(b"".join((here / name).read_bytes() for name in ("blocks.py", "environment.py")))
