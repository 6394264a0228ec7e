"""A change of a recipe, and what the recipe is then planned to give: each is written out in one place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from recipec.axes import Adaptation
from recipec.layout import Layout
from recipec.planner.search.candidates import Candidate
from recipec.units import counted

Lines = tuple[str, ...]


class Change(Struct, frozen=True):
    """What a user writes or removes: keys with their sections."""

    sets: tuple[tuple[str, Any], ...] = ()  # key and value
    removes: tuple[str, ...] = ()

    @property
    def lines(self) -> str:
        """Its lines, without what to do with them: "`hardware.nodes = 2` without `hardware.measured`"."""
        without = f" without {quoted(self.removes)}" if self.removes else ""
        return quoted([f"{key} = {toml(value)}" for key, value in self.sets]) + without

    @property
    def told(self) -> str:
        """What to do: "set `hardware.nodes = 2`", or "remove `train.strategy`", or both."""
        sets = quoted([f"{key} = {toml(value)}" for key, value in self.sets]) if self.sets else ""
        removes = quoted(self.removes) if self.removes else ""
        return " and ".join([f"set {sets}"] * bool(sets) + [f"remove {removes}"] * bool(removes))

    def joined(self, other: Change) -> Change:
        """This change and another one, which it comes before where both set a key."""
        sets = dict(other.sets) | dict(self.sets)
        own_first = dict.fromkeys((*dict(self.sets), *dict(other.sets)))
        removes = (key for key in dict.fromkeys((*self.removes, *other.removes)) if key not in sets)
        return Change(tuple((key, sets[key]) for key in own_first), tuple(removes))


class GlobalBatch(Struct, frozen=True):
    """A global batch, as a layout has one."""

    global_batch: int
    packing: bool


class Proposal(Struct, frozen=True):
    """A change that was planned, and what it gives."""

    change: Change
    effect: str  # "LoRA, zero3 then fits in 16.9 GiB per GPU"
    now: Layout | GlobalBatch  # of the recipe as it is
    then: Layout
    only: str = ""  # where it holds, or what is then decided: " if a node has it"
    but: Lines = ()  # what it takes beside, or why recipec does not take it by itself

    @property
    def told(self) -> str:
        """The line that a user reads."""
        stated = [key for key, _ in self.change.sets] + [*self.change.removes] * bool(self.only)
        batch = "" if any(key.endswith(_BATCH) for key in stated) else other_batch(self.now, self.then)
        effect = ", ".join(filter(None, (self.effect, batch)))
        return "; ".join((f"{self.change.told}{self.only}: {effect}", *self.but))


_BATCH = ".global_batch_size"
_UNITS = {True: "packed sequence", False: "row"}


def planned(
    change: Change, effect: str, found: Candidate | None, then: Candidate | None, only: str = "", but: Lines = ()
) -> Proposal:
    """A change that was planned: `found` is what the recipe as it is takes, `then` what the changed one."""
    assert found is not None and then is not None
    return Proposal(change, effect, found.layout, then.layout, only, but)


def other_batch(now: Layout | GlobalBatch, then: Layout | GlobalBatch) -> str:
    """Another global batch: "with a global batch of 32 instead of 48"; "" where it is the same."""
    alike = now.packing == then.packing
    if alike and now.global_batch == then.global_batch:
        return ""
    batches = ((each.global_batch, _UNITS[each.packing]) for each in (then, now))
    sizes = (f"{size:,}" if alike else counted(size, unit) for size, unit in batches)
    return f"with a global batch of {' instead of '.join(sizes)}"


def asking_for(row: Adaptation, chosen: Adaptation) -> Change:
    """What a recipe says in [train] for an adaptation that the rules put behind the `chosen` one."""
    family = (("train.adaptation", row.family),) if row.family != chosen.family else ()
    base = () if row.trains_all else (("train.quantization", row.base),)
    return Change((*family, *base))


def pins(layout: Layout) -> Change:
    """What a recipe says in [train] to get a layout of this kind."""
    row = layout.adapts
    sets = {
        "adaptation": row.family,
        "quantization": None if row.trains_all else row.base,
        "strategy": layout.strategy,
        "offload": layout.offload if layout.offloads else None,
        "activation_checkpointing": None if layout.checkpointing else False,
        "activation_offload": layout.activation_offload or None,
    }
    return Change(tuple((f"train.{key}", value) for key, value in sets.items() if value is not None))


def setting(**values: Any) -> Change:
    """A change that sets keys, in which two underscores stand for a dot."""
    return Change(tuple((key.replace("__", "."), value) for key, value in values.items()))


def toml(value: Any) -> str:
    """A value as a recipe writes it."""
    return json.dumps(value, ensure_ascii=False)


def quoted(lines: Sequence[str]) -> str:
    """Lines of a recipe in code font."""
    *before, last = (f"`{line}`" for line in lines)
    return f"{', '.join(before)} and {last}" if before else last
