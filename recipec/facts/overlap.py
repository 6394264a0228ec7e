"""Files and data sets that [data] names twice in one part, or both for training and for what is held out (E0401)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from recipec.axes import SECTIONS
from recipec.dataset import files_of, walks_everything
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import DATA_SOURCES, DataSource

_NOTE = "prepare_data.py takes out of training what is held out, so that of one file no row would be left to learn from"
_FIRST_SPLIT = "train"  # of a data set of the Hub, where none is named


def learned_and_held_out(loaded: LoadedRecipe) -> Iterator[Diagnostic]:
    """A row that is learned says nothing of how the model does on rows that it has not seen."""
    trained = [(section, index, source) for section in SECTIONS for index, source in _sources(loaded, section)]
    named = [(section, index, _named(loaded, source)) for section, index, source in trained]
    for part in ("eval", "test"):
        for place, source in _sources(loaded, part):
            own = _named(loaded, source)
            both = next(((section, index, own & other) for section, index, other in named if own & other), None)
            if both:
                yield _twice(loaded, (part, place), both)


def named_twice(loaded: LoadedRecipe) -> Iterator[Diagnostic]:
    """A file that two sources name brings its rows once, because prepare_data.py drops duplicates; plans count both.

    Sources that read other columns of it bring other rows.
    """
    for part in DATA_SOURCES:
        seen: list[tuple[int, DataSource, set[Any]]] = []
        for index, source in _sources(loaded, part):
            own, reading = _named(loaded, source), _reading(source)
            twice = ((place, own & names) for place, other, names in seen if own & names and other == reading)
            if both := next(twice, None):
                yield _again(loaded, part, index, *both)
            seen.append((index, reading, own))


def _reading(source: DataSource) -> DataSource:
    """How a source reads its rows, whichever and however often."""
    return source.model_copy(update=dict.fromkeys(("path", "take", "weight")))


def _again(loaded: LoadedRecipe, part: str, index: int, first: int, both: set[Any]) -> Diagnostic:
    name, more = _shown(loaded, both)
    labels = (
        Label(loaded.place("data", part, index), f"names {name}{more}"),
        Label(loaded.place("data", part, first), f"names {'them' if more else 'it'}, too"),
    )
    help = ("name each file in one source; `weight` says how often its rows are learned",)
    return Diagnostic("E0401", f"two sources of data.{part} name the same rows", labels, help)


def _shown(loaded: LoadedRecipe, both: set[Any]) -> tuple[str, str]:
    """The first that is named twice, and how many others are."""
    first = min(both, key=str)
    name = first[0] if isinstance(first, tuple) else os.path.relpath(first, loaded.folder)
    return name, f" and {len(both) - 1} more" * (len(both) > 1)


def _sources(loaded: LoadedRecipe, part: str) -> Iterator[tuple[int, DataSource]]:
    """The sources of a part that the recipe names itself, not those that its pairs stand for."""
    if not loaded.pairs_asked(part):
        yield from enumerate(getattr(loaded.recipe.data, part) or ())


def _named(loaded: LoadedRecipe, source: DataSource) -> set[Any]:
    """What a source names: each file by the place where it really is, or a split of a data set of the Hub."""
    if source.path is None:
        return {(source.hub, source.subset, source.split or _FIRST_SPLIT)} if source.hub else set()
    if walks_everything(source.path, loaded.folder):
        return set()
    files = files_of(source.path, loaded.folder) or [loaded.folder / source.path]
    return {os.path.realpath(file) for file in files}


def _twice(loaded: LoadedRecipe, held: tuple[str, int], learned: tuple[str, int, set[Any]]) -> Diagnostic:
    (part, place), (section, index, both) = held, learned
    name, more = _shown(loaded, both)
    labels = (
        Label(loaded.place("data", part, place), f"names {name}{more}"),
        Label(loaded.place("data", section, index), "trains on them, too"),
    )
    help = (
        f"remove data.{part}: recipec then holds out a share of the rows (`data.{part}_fraction`)",
        f"name other rows in data.{part}, or leave these out of data.{section}",
    )
    return Diagnostic("E0401", f"data.{part} names rows that data.{section} trains on", labels, help, (_NOTE,))
