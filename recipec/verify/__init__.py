"""Proof that a bundle runs: its files by their own loaders, then the bundle itself, tiny, on this machine's CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recipec.verify.report import Check, VerifyReport

LEVELS = ("static", "run", "learn")


def verify_bundle(
    out: Path, level: str, ranks: int | None = None, told: Callable[[Check], None] = lambda check: None
) -> VerifyReport:
    """Verify the bundle in `out` at "static", "run" or "learn"; `told` hears of every check when it is made.

    `ranks` caps the processes of a distributed run (2).
    """
    from recipec.verify.verify import verify

    return verify(Path(out).resolve(), level, ranks, told)


__all__ = ["LEVELS", "verify_bundle"]
