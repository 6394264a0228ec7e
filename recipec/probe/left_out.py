"""Saying on stderr what is not measured, and why: the file then has no such figure, and a plan assumes it."""

from __future__ import annotations

import sys


def left_out(what: str, why: str) -> None:
    """One line; `what` in the words of the file's tables."""
    print(f"  left out: {what}: {why}", file=sys.stderr, flush=True)
