"""Published runs: reading the tables, and saying by name what is not modelled."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture, Modules
from recipec.estimate.workload import Workload
from recipec.layout import Layout

DATA = Path(__file__).parent / "data"
RESULTS = Path(__file__).parent / "results"

Row = dict[str, str]


class Unmodelled(Exception):
    """A run that uses something the estimates do not model: the feature's name."""


class Case(Struct, frozen=True):
    """One published run in our terms."""

    architecture: Architecture
    layout: Layout
    work: Workload


def rows(name: str) -> list[Row]:
    """The rows of a file, or of a table that ships with the benchmarks; a column that it lacks is not stated."""
    path = Path(name) if Path(name).exists() else DATA / name
    with path.open(encoding="utf-8", newline="") as file:
        return [defaultdict(str, {key: value or "" for key, value in row.items()}) for row in csv.DictReader(file)]


def fused(shape: Architecture) -> Architecture:
    """The same layers with query, key and value in one projection, as LitGPT writes them."""
    return replace(shape, modules=Modules(qkv=("qkv",), output="proj", mlp_in=shape.modules.mlp_in))


def number(row: Row, column: str) -> int:
    """An integer cell; raises Unmodelled where the source does not state it."""
    text = row[column].strip()
    if not text:
        raise Unmodelled(f"not stated: {column}")
    try:
        return int(float(text))
    except ValueError:
        raise Unmodelled(f"not a number: {column}") from None
