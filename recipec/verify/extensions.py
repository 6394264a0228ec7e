"""The folder of compiled operators that DeepSpeed shares between runs."""

from __future__ import annotations

import time
from pathlib import Path

STALE_SECONDS = 600.0


def drop_stale_locks(folder: Path, now: float | None = None) -> list[Path]:
    """Remove lock files that an interrupted build left behind, or the next run waits forever; those removed."""
    moment = time.time() if now is None else now
    stale = [path for path in folder.glob("**/lock") if moment - path.stat().st_mtime > STALE_SECONDS]
    for path in stale:
        path.unlink(missing_ok=True)
    return stale
