"""Values of the recipe that nothing reads, since every stage, source or adapter that would has its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recipec.axes import METHODS, SECTIONS
from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.facts.held_out import PARTS
from recipec.planner.plan import Plan
from recipec.recipe import LoadedRecipe
from recipec.recipe.load import LAST_STAGE_ONLY
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.schema import rivals
from recipec.recipe.schema_adapters import OF_ONE_TASK
from recipec.units import counted

_OF_ROWS = ("format", "columns")  # of [data], for all files of rows that do not say so themselves
_OF_SOURCES = ("examples", "tokens_per_example", *_OF_ROWS)  # for those that are learned from
_MOST_SHOWN = 4  # of the places that hold instead: there may be 64 adapters
_OF_TASKS = tuple(path for path in OF_ONE_TASK.values() if path[0] == "data")


def shadowed(loaded: LoadedRecipe, plan: Plan) -> Iterator[Diagnostic]:
    """Yield W0546 for every such value, but those of a preset, which other recipes may read."""
    for path in _leaves(loaded.value("train") or {}):
        yield from _finding(loaded, ("train", *path), list(_of_stages(loaded, plan, ("train", *path))))
    for path in dict.fromkeys((*_OF_TASKS, *(("data", key) for key in _OF_ROWS))):
        found = [_instead(loaded, task, path) for task in loaded.tasks.values()]
        yield from _finding(loaded, path, found)


def _leaves(table: dict[str, Any], above: KeyPath = ()) -> Iterator[KeyPath]:
    """The keys of [train] with their values."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key)


def _of_stages(loaded: LoadedRecipe, plan: Plan, path: KeyPath) -> Iterator[list[Place] | None]:
    """Of every stage that would read a value of [train]: what stands instead, or None where it reads the value."""
    named = path[1] if path[1] in METHODS else ""
    for name, task in loaded.tasks.items():
        stages = [each.stage.name for each in plan.stages if each.stage.task == name]
        for stage in stages[-1:] if path[1] in LAST_STAGE_ONLY else stages:
            if named in ("", stage):
                yield _instead(loaded, task, path, stage)


def _instead(loaded: LoadedRecipe, task: LoadedRecipe, path: KeyPath, stage: str = "") -> list[Place] | None:
    """What a task, or a stage of it, has in place of a value that holds for all; None where it reads the value."""
    if not task.is_set(*path) or task.place(*path) != loaded.place(*path):
        return _of_task(task, path)
    if stage and stage not in path:
        return _of_stage(task, stage, path)
    return _of_sources(task, path[-1]) if path[-1] in _OF_SOURCES else None


def _of_task(task: LoadedRecipe, path: KeyPath) -> list[Place]:
    """What one of the adapters, or the mix of them, says instead, or what excludes it; the mix may say nothing."""
    general = tuple(part for part in path if part not in METHODS)
    return [task.place(*other) for other in (general, *rivals(general)) if task.is_set(*other)]


def _of_stage(task: LoadedRecipe, stage: str, path: KeyPath) -> list[Place] | None:
    """What stands in the stage's own table instead: the key, or one that excludes it."""
    own = [("train", stage, *other[1:]) for other in (path, *rivals(path))]
    return [task.place(*each) for each in own if task.is_set(*each)][:1] or None


def _of_sources(task: LoadedRecipe, key: str) -> list[Place] | None:
    """What each source of rows says itself; a file without a table of its own says nothing."""
    own = [(*at, key) for at in _sources(task, (*SECTIONS, *PARTS) if key in _OF_ROWS else SECTIONS)]
    return [task.place(*each) for each in own] if all(task.is_set(*each) for each in own) else None


def _sources(task: LoadedRecipe, sections: Iterable[str]) -> Iterator[KeyPath]:
    """Where the sources of these sections are."""
    for section in sections:
        written = task.value("data", section)
        yield from (("data", section, at) for at, _ in enumerate(written if isinstance(written, list) else ()))
        if written is not None and not isinstance(written, list):
            yield ("data", section)


def _finding(loaded: LoadedRecipe, path: KeyPath, found: Sequence[list[Place] | None]) -> Iterator[Diagnostic]:
    """W0546 where all readers have something else instead, in the same file."""
    others = dict.fromkeys(place for each in found for place in each or ())
    if not loaded.is_set(*path) or not others or None in found:
        return
    place = loaded.place(*path)
    if all(other.file == place.file for other in others):
        shown = [Label(other, "holds instead") for other in others][:_MOST_SHOWN]
        name, more = dotted(path), counted(len(others) - len(shown), "more place")
        notes = (f"another value holds instead in {more}",) if len(others) > len(shown) else ()
        help = (f"remove `{name}`, or what holds instead",)
        yield Diagnostic("W0546", f"`{name}` has no effect", (Label(place, "read by nothing"), *shown), help, notes)
