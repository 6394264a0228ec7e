"""Read a file that somebody else wrote: a regular one of bounded size, and never wait for it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file; raises OSError for a pipe, a device, and a file of more than `most` bytes.

    The error of a file that is too large has the errno EFBIG.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        amount = f"{most // 2**20} MiB" if most >= 2**20 else f"{most // 2**10} KiB"
        raise OSError(errno.EFBIG, f"it is larger than {amount}", str(path))
    return content


def read_lines(path: Path, most: int) -> str:
    """Return the text of a file as Python reads it: UTF-8 without a byte order mark, with lines that end in `\\n`.

    Raises OSError as read_regular does, and UnicodeDecodeError.
    """
    return read_regular(path, most).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would otherwise wait for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
