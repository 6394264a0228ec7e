"""What a bundle is run with on this machine, and how one substitution applies to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from recipec.catalog.architecture import Architecture
from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.sizes import (
    LEARN_FROM_REWARDS,
    LEARN_GENERATIONS,
    RUN_STEPS,
    most_accumulated,
    steps_to_learn,
    whole_generations,
)


class Situation(Struct, frozen=True):
    """A bundle, and what it will be run with."""

    bundle: Bundle
    ranks: int
    learns: bool
    model: str  # what the stand-in is
    data: str  # what the rows are
    hub_data: Mapping[str, str] = field(default_factory=dict)  # name on the Hub -> local file
    outside: Mapping[str, str] = field(default_factory=dict)  # path of a source -> where it is read here
    shape: Architecture | None = None  # the stand-in's; None where the model is used as it is

    def given(self, argument: str) -> list[Any]:
        """The values of a trainer argument over the stages, without None."""
        values = [stage.arguments.get(argument) for stage in self.bundle.stages]
        return [value for value in values if value is not None]

    def chosen(self, name: str) -> list[Any]:
        """What the plan chose, for every stage."""
        return [stage.choice[name] for stage in self.bundle.stages]

    @property
    def as_planned(self) -> bool:
        """Whether ranks and batches are the plan's, so that the launch script is started without being told any."""
        return max(self.chosen("world_size")) == self.ranks and not self.most_accumulated

    @property
    def most_accumulated(self) -> int:
        """The micro batches of a step here, where that are fewer than planned; 0 where it is as planned."""
        planned, most = max(self.chosen("gradient_accumulation")), most_accumulated(self.bundle)
        return most if planned > most else 0

    @property
    def steps(self) -> int:
        """Optimizer steps of one training here."""
        if not self.learns:
            return RUN_STEPS
        return max(map(self._steps_of, self.bundle.stages))

    def _steps_of(self, stage: BundleStage) -> int:
        if not stage.method.earns:
            return steps_to_learn(stage, self.bundle.stages)
        return max(LEARN_FROM_REWARDS, whole_generations(stage, 1) * LEARN_GENERATIONS)

    @property
    def on_cpu(self) -> bool:
        """Whether the recipe itself is for a CPU."""
        return self.bundle.last.decisions["gpu"] == "cpu"


class Applied(Struct, frozen=True):
    """How a row applies to a bundle."""

    planned: str
    used: str
    patches: Mapping[str, Any] = field(default_factory=dict)  # names and values for the shim
