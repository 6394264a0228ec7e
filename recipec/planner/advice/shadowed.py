"""Values of the recipe that nothing reads, since every stage or source that would has its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recipec.axes import METHODS, SECTIONS
from recipec.diagnostics.model import Diagnostic, Label
from recipec.planner.plan import Plan
from recipec.recipe import LoadedRecipe
from recipec.recipe.load import LAST_STAGE_ONLY
from recipec.recipe.schema import rivals

_OF_SOURCES = ("examples", "tokens_per_example")  # of [data], for sources that do not say so themselves
Path = tuple[str, ...]


def shadowed(loaded: LoadedRecipe, plan: Plan) -> Iterator[Diagnostic]:
    """Yield W0546 for every such value, but those of a preset, which other recipes may read."""
    stages = [stage.stage.name for stage in plan.stages]
    for path in () if loaded.value("adapters") else _leaves(loaded.value("train") or {}):
        readers = stages[-1:] if path[0] in LAST_STAGE_ONLY else stages
        found = [_own(loaded, stage, path) for stage in readers]
        yield from _finding(loaded, ("train", *path), [own for own in found if own], len(readers))
    for key in _OF_SOURCES if loaded.is_set("data") else ():
        readers = list(_sources(loaded))
        found = [(*at, key) for at in readers if loaded.is_set(*at, key)]
        yield from _finding(loaded, ("data", key), found, len(readers))


def _leaves(table: dict[str, Any], above: Path = ()) -> Iterator[Path]:
    """The keys of [train] with their values, but those of the stages' own tables."""
    for key, value in table.items():
        if isinstance(value, dict) and not (key in METHODS and not above):
            yield from _leaves(value, (*above, key))
        elif not isinstance(value, dict):
            yield (*above, key)


def _own(loaded: LoadedRecipe, stage: str, path: Path) -> Path | None:
    """What stands in the stage's own table instead: the key, or one that excludes it."""
    own = [("train", stage, *other[1:]) for other in (("train", *path), *rivals(("train", *path)))]
    return next((each for each in own if loaded.is_set(*each)), None)


def _sources(loaded: LoadedRecipe) -> Iterator[tuple[str | int, ...]]:
    """Where the sources are that rows are learned from; a file without a table of its own says nothing."""
    tables = [("adapters", at) for at, _ in enumerate(loaded.value("adapters") or [])] or [("data",)]
    for table in tables:
        if len(table) > 1 and any(loaded.is_set(*table, key) for key in _OF_SOURCES):
            yield table
            continue
        for section in SECTIONS:
            written = loaded.value(*table, section)
            yield from ((*table, section, at) for at, _ in enumerate(written if isinstance(written, list) else ()))
            if written is not None and not isinstance(written, list):
                yield (*table, section)


def _finding(
    loaded: LoadedRecipe, path: Path, own: Sequence[tuple[str | int, ...]], readers: int
) -> Iterator[Diagnostic]:
    """W0546 where all readers have their own, in the same file."""
    place = loaded.place(*path)
    if not loaded.is_set(*path) or not own or len(own) < readers:
        return
    others = [loaded.place(*other) for other in own]
    if all(other.file == place.file for other in others):
        labels = (Label(place, "read by nothing"), *(Label(other, "holds instead") for other in others))
        name = ".".join(path)
        yield Diagnostic("W0546", f"`{name}` has no effect", labels, (f"remove `{name}`, or what holds instead",))
