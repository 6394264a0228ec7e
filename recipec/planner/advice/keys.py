"""The keys of [train] as a recipe writes them for a stage: all that is proposed is told with these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, meant_by
from recipec.planner.advice.change import Change, Lines, planned
from recipec.planner.plan import StagePlan
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import TABLES
from recipec.recipe.empty_tables import NEVER_EMPTY
from recipec.recipe.load import LAST_STAGE_ONLY
from recipec.recipe.schema_training import ADAPTED, of_stage

_START = "model.init_from"
_WHOLE = (*NEVER_EMPTY, ("train", "curriculum"))  # tables that must have a key


def named_for(text: str, stage: str, stages: Sequence[str], loaded: LoadedRecipe) -> str:
    """A text with the keys that a stage reads: those of [train.STAGE] that the recipe sets, or all of them where
    several stages run."""
    return of_stage(text, stage, lambda key: len(stages) > 1 or loaded.is_set("train", stage, *key.split(".")))


def in_place(text: str, loaded: LoadedRecipe) -> str:
    """A fix that names another adaptation, or no base, with what the recipe writes of the present one: its tables are
    removed, and a word such as "lora-int8", which names a base too, is replaced."""
    word = ADAPTATIONS.get(loaded.value("train", "adaptation"))
    named = text.replace(_NO_BASE, f'`train.adaptation = "{word.family}"`') if word and word.quantized else text
    return _OTHER.sub(lambda found: _without_tables(found, loaded), named)


_NO_BASE = '`train.quantization = "none"`'
_OTHER = re.compile(r'(?:set )?(`train\.(?:([\w-]+)\.)?adaptation = "([\w-]+)"`)')


def _without_tables(found: re.Match[str], loaded: LoadedRecipe) -> str:
    """The line, and the tables of adapters of another kind, of the stage or of all stages, that contradict it."""
    line, stage, asked = found.groups()
    places = [("train", stage)] if stage else [("train",), *(("train", name) for name in ADAPTED)]
    others = [table for table in TABLES if table not in {row.table for row in meant_by(asked)}]
    paths = [(*place, table) for place in places for table in others if loaded.is_set(*place, table)]
    removed = " and ".join(f"`{'.'.join(path)}`" for path in paths)
    return f"remove {removed} and set {line}" if removed else found[0]


def for_stage(text: str, stage: StagePlan, loaded: LoadedRecipe) -> str:
    """The same of a stage that is planned."""
    return named_for(text, stage.stage.name, stage.decisions["stages"].value, loaded)


def as_written(change: Change, context: Context, *others: Context) -> Change:
    """A change of a stage, and of the other ones that it is made in, with the keys of the recipe."""
    meant = [context, *others]
    sets = {name: value for key, value in change.sets for name in _set_for(key, meant)}
    lines = dict.fromkeys(line for each in meant for key in change.removes for line in _written_for(key, each))
    return replace(change, sets=tuple(sets.items()), removes=_whole_tables(lines, sets, context.facts.loaded))


def told(
    context: Context,
    change: Change,
    effect: str,
    found: Candidate | None,
    then: Candidate | None,
    only: str = "",
    but: Lines = (),
) -> str:
    """The line that a user reads of a change of a stage that was planned."""
    return planned(as_written(change, context), effect, found, then, only, but).told


def _set_for(key: str, meant: Sequence[Context]) -> list[str]:
    """What to set: where all stages are meant, the key of [train] that holds for all, and those that replace it."""
    stages = stages_of(meant[0])
    shared = len({each.stage.name for each in meant}) == len(stages) and key.partition(".")[2] not in LAST_STAGE_ONLY
    return [
        named_for(key, each.stage.name, [each.stage.name] if shared else stages, each.facts.loaded) for each in meant
    ]


def _written_for(key: str, context: Context) -> list[str]:
    """What to remove: a key in [train.STAGE], in [train], or in both; else the adapter that training goes on from says
    it."""
    loaded = context.facts.loaded
    paths = dict.fromkeys((loaded.written_for(context.stage.name, key), tuple(key.split("."))))
    found = [path for path in paths if loaded.is_set(*path)]
    by_adapter = [_START] if loaded.is_set(*_START.split(".")) else []
    return [".".join(path) for path in found] or by_adapter


def _whole_tables(removed: Iterable[str], sets: Iterable[str], loaded: LoadedRecipe) -> tuple[str, ...]:
    """What to remove, with a whole table in place of the last of its keys where it must have one."""
    names = dict.fromkeys(removed)
    for table in map(".".join, _WHOLE):
        written = {f"{table}.{key}" for key in loaded.value(*table.split(".")) or ()}
        if written and written <= names.keys() and not any(name.startswith(f"{table}.") for name in sets):
            names = dict.fromkeys(table if name in written else name for name in names)
    return tuple(names)


def stages_of(context: Context) -> Sequence[str]:
    """The stages of its recipe, by name."""
    return next(decision.value for decision in context.goals if decision.id == "stages")
