"""What came of `model.name = "auto"`: the model, why it, and the models that come next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """A model that was not taken, and why."""

    model: str
    params_billion: float
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The model that was taken from the catalog."""

    model: str
    params_billion: float
    because: str
    acceptable: int  # models that the recipe and the rules allow
    known: int  # models of the catalog
    runners_up: tuple[RunnerUp, ...]
