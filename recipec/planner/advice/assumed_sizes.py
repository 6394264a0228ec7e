"""Sizes of sources that are neither read nor stated, and so assumed (W0509)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from recipec.axes import METHODS
from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.facts import Facts
from recipec.planner.advice.limits import section_of
from recipec.planner.plan import Plan
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_data import DataSource

_SIZES = ("examples", "tokens_per_example")


class _Source(Struct, frozen=True):
    given: DataSource
    place: Place
    assumed: Mapping[str, int]


def assumed_sizes(loaded: LoadedRecipe, facts: Facts, plan: Plan) -> Iterator[Diagnostic]:
    """Yield W0509 once for all stages, with the sources whose sizes are assumed."""
    sections = dict.fromkeys(section_of(loaded, stage) for stage in plan.stages)
    sources = [source for section in sections for source in _sources(loaded, facts, section)]
    assuming = [source for source in sources if source.assumed]
    if not assuming:
        return
    help = [f"set {' and '.join(filter(None, (_key(id, sources) for id in _SIZES)))}"]
    if any(source.given.hub for source in sources) and loaded.recipe.data.ignore is None:
        help.append("name the columns that training is to leave out in `data.ignore`: prepare_data.py refuses others")
    lengths = any("tokens_per_example" in source.assumed for source in assuming)
    blocks = all(METHODS[stage.stage.name].packs == "blocks" for stage in plan.stages)
    follow = "`data.max_length`, " * (lengths and not blocks and not loaded.is_set("data", "max_length"))
    notes = (f"{follow}steps, schedule, time and cost depend on these numbers",)
    yield Diagnostic("W0509", "the size of the data is assumed", tuple(map(_label, assuming)), tuple(help), notes)


def _sources(loaded: LoadedRecipe, facts: Facts, section: str) -> Iterator[_Source]:
    found = facts.data[section].assumed if section in facts.data else ()
    for index, assumed in enumerate(found):
        yield _Source(getattr(loaded.recipe.data, section)[index], loaded.place("data", section, index), assumed)


def _key(id: str, sources: list[_Source]) -> str:
    """Where to state a size: once where all sources lack it, else beside each of those that do."""
    lacking = [source.given for source in sources if id in source.assumed]
    if len(lacking) == len(sources):
        return f"`data.{id}`"
    return f"`{id}` of {' and of '.join(f'`{given.hub or given.path}`' for given in lacking)}" * bool(lacking)


def _label(source: _Source) -> Label:
    values = " and ".join(f"{id} = {value:,}" for id, value in source.assumed.items())
    return Label(source.place, f"not read at compile time, so recipec assumes {values}")
