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


def why_no_file(path: Path) -> str:
    """Why what a path names is no file, where it names something else: a pipe, a device or links in a circle; or ""."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return "is a link that leads back to itself" if error.errno == errno.ELOOP else ""
    except ValueError:  # a name that no file can have
        return ""
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "is a pipe or a device, not a file"


def read_lines(path: Path, most: int) -> str:
    """Return the text of a file as Python reads it: UTF-8 without a byte order mark, with lines that end in `\\n`.

    Raises OSError as read_regular does, and UnicodeDecodeError.
    """
    return read_regular(path, most).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would otherwise wait for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
