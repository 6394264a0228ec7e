"""Models that are known and not built, each with what is missing."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_suffix(".toml")


def why_not(name: str) -> str | None:
    """What is missing for the model called `name` on the Hub; None where nothing is known of it."""
    short = name.lower().rpartition("/")[2]
    return next((row["reason"] for row in _rows() if short.startswith(tuple(row["names"]))), None)


def why_no_type(model_type: str) -> str | None:
    """What is missing for a model_type of transformers; None where nothing is known of it."""
    return next((row["reason"] for row in _rows() if model_type in row["model_types"]), None)


def reads_images(model_type: str) -> bool:
    """Whether a model_type that is not built reads images or sound beside text."""
    return any(row.get("images", False) for row in _rows() if model_type in row["model_types"])


@cache
def _rows() -> list[dict[str, Any]]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))["models"]
