"""A table of prices that a recipe names: the shape of recipec/catalog/prices.toml, in a file of the user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from recipec.catalog.gpus import gpu, gpu_names
from recipec.catalog.lookup import nearest
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.working_folder import path_from_recipe
from recipec.files import why_no_file
from recipec.recipe import LoadedRecipe
from recipec.recipe.document import Document, parse
from recipec.recipe.schema import MOST_USD_PER_GPU_HOUR
from recipec.recipe.shown import shown
from recipec.recipe.source import read

_SHAPE = ("write one table per GPU: [h100], then usd_per_hour = 2.5",)
_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "usd_per_hour": ("a number", (int, float)),
    "clouds": ("a table", dict),
    "source": ("a string", str),
    "checked": ("a date", date),
}


def read_table(loaded: LoadedRecipe, report: Report) -> Document | None:
    """Read the file that budget.prices names; None when it names none, or with a diagnostic when it cannot be read."""
    name = loaded.recipe.budget.prices
    if name is None:
        return None
    place, path = loaded.place("budget", "prices"), loaded.folder / name
    if not os.path.isfile(path):  # where pathlib raises for names that no file can have
        report.add(_no_file(name, path, place, loaded.folder))
        return None
    beside = Path(loaded.document.source.shown).parent
    source = read(path, Path(os.path.normpath(beside / name)).as_posix(), report, place)
    return parse(source, report) if source else None


def _no_file(name: str, path: Path, place: Place, folder: Path) -> Diagnostic:
    label = Label(place, "named here")
    if os.path.isdir(path):
        return Diagnostic(
            "E0002", f"the price table `{name}` is a folder", (label,), ("name a .toml file in the folder",)
        )
    if odd := why_no_file(path):
        return Diagnostic("E0002", f"the price table `{name}` {odd}", (label,), ("name a .toml file",))
    help = path_from_recipe(name, folder) or ("the path starts at the folder of the recipe that sets it",)
    return Diagnostic("E0001", f"no price table `{name}`", (label,), help)


def table_findings(document: Document) -> Iterator[Diagnostic]:
    """What is wrong with a price table, in the order in which it is written."""
    written: dict[str, str] = {}  # GPU -> what the table calls it
    for name, entry in document.data.items():
        place, card = document.places[(name,)].key, gpu(name)
        if card is None:
            near = ", ".join(nearest(name, gpu_names()))
            help = f"the nearest in the catalog: {near}" if near else "`recipec list gpus` has the names"
            yield Diagnostic("E0302", f"unknown GPU `{name}`", (Label(place, "not in the catalog"),), (help,))
        elif card.name in written:
            first = document.places[(written[card.name],)].key
            labels = (Label(place, f"also {card.name}"), Label(first, "the first price is here"))
            yield Diagnostic("E0401", f"`{card.name}` has two prices", labels, ("keep one of them",))
        else:
            written[card.name] = name
            yield from _entry(name, entry, document)


def _entry(name: str, entry: Any, document: Document) -> Iterator[Diagnostic]:
    located = document.places[(name,)]
    if not isinstance(entry, dict):
        label = Label(located.value, "expected a table")
        yield Diagnostic("E0202", f"`{name}` is {shown(entry)}", (label,), _SHAPE)
        return
    if "usd_per_hour" not in entry:
        label = Label(located.key, "needs `usd_per_hour`")
        yield Diagnostic("E0201", f"missing key `usd_per_hour` in [{name}]", (label,), _SHAPE)
    for key, value in entry.items():
        there = document.places[(name, key)]
        if key not in _TYPES:
            help = (f"the keys are {', '.join(f'`{known}`' for known in _TYPES)}",)
            label = Label(there.key, f"not a key of [{name}]")
            yield Diagnostic("E0203", f"unknown key `{key}` in [{name}]", (label,), help)
        else:
            yield from _value(f"{name}.{key}", key, value, there.value)


def _value(path: str, key: str, value: Any, place: Place) -> Iterator[Diagnostic]:
    expected, types = _TYPES[key]
    if not isinstance(value, types) or isinstance(value, bool):
        yield Diagnostic("E0202", f"`{path}` is {shown(value)}", (Label(place, f"expected {expected}"),))
    elif key == "usd_per_hour" and not 0 < value <= MOST_USD_PER_GPU_HOUR:
        label = Label(place, f"must be more than 0 and at most {MOST_USD_PER_GPU_HOUR:,}")
        yield Diagnostic("E0205", f"`{path}` is {shown(value, bare=True)}", (label,))
