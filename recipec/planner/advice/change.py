"""A change of a recipe, and what the recipe is then planned to give: each is written out in one place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from recipec.axes import Adaptation


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


class Proposal(Struct, frozen=True):
    """A change that was planned, and what it gives."""

    change: Change
    effect: str  # "LoRA, zero3 then fits in 16.9 GiB per GPU"
    only: str = ""  # where it holds, or what is then decided: " if a node has it"
    but: tuple[str, ...] = ()  # what it takes beside, or why recipec does not take it by itself

    @property
    def told(self) -> str:
        """The line that a user reads."""
        return "; ".join((f"{self.change.told}{self.only}: {self.effect}", *self.but))


def asking_for(row: Adaptation, chosen: Adaptation) -> Change:
    """What a recipe says in [train] for an adaptation that the rules put behind the `chosen` one."""
    family = (("train.adaptation", row.family),) if row.family != chosen.family else ()
    base = () if row.trains_all else (("train.quantization", row.base),)
    return Change((*family, *base))


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
