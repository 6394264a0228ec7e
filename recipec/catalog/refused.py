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


def reads_images(model: str) -> bool:
    """Whether what is not built, by its model_type or its name, reads images or sound beside text."""
    named = model.rpartition("/")[2].lower()
    rows = (row for row in _rows() if row.get("images", False))
    return any(model in row["model_types"] or named.startswith((*row["names"],)) for row in rows)


@cache
def _rows() -> list[dict[str, Any]]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))["models"]
