"""A hyperparameter of a method: its usual values, and the key of [alignment] that sets one which only it has."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from msgspec import Struct

# Training rows, by the table of rule book 001, "Decision tree: data size for instruction tuning".
SIZES = "<1K", "1K-10K", "10K-100K", ">100K"


class Default(Struct, frozen=True):
    """One row of a table of defaults: the first row whose conditions hold gives the value.

    An empty condition always holds.
    """

    value: float
    because: str  # the fact that decides, without the value
    source: str  # public: `docs/rule-books/001.md, Step 4; Rules`, a paper with its arXiv number, a library file
    accepts: tuple[float, float] | None = None  # inclusive; a recipe's value outside it is warned about
    adaptations: tuple[str, ...] = ()  # names of recipec.axes.adaptations
    sizes: tuple[str, ...] = ()  # of SIZES
    params_below: float = inf  # parameters of the model

    def holds(self, adaptation: str, size: str, params: float) -> bool:
        """Whether all its conditions do."""
        return (
            (not self.adaptations or adaptation in self.adaptations)
            and (not self.sizes or size in self.sizes)
            and params < self.params_below
        )


Defaults = tuple[Default, ...]


TOOLS = "trl", "axolotl", "llama_factory", "typed"  # whose names a key has elsewhere: columns of recipe/foreign.py
# Own.formula -> the hyperparameters, by name, that it reads and that are decided before. Each a function of
# recipec/rules/preference.py.
READ_BY_FORMULAS: dict[str, tuple[str, ...]] = {
    "weight of unwanted": (),
    "weight of wanted": ("undesirable_weight",),
    "KL of variant": ("variant",),
    "answers of variant": ("variant",),
    "updates of variant": ("variant",),
    "lambda of answers": ("max_new_tokens",),
    "rounds of results": ("max_new_tokens", "result_tokens"),
    "GPUs of copy": ("params", "precision", "vram_gib", "gpus_per_node", "global_batch_size", "head_splits"),
}
# of these, what is known before any of them
FACTS_OF_FORMULAS = "params", "precision", "vram_gib", "gpus_per_node", "global_batch_size", "head_splits"


class Own(Struct, frozen=True, kw_only=True):
    """A hyperparameter that not every method has, and the key of [alignment] that sets it."""

    id: str  # of its rule, never reused: "DPO-001"
    name: str  # of the decision: "beta"
    key: str  # in [alignment]: "beta"
    argument: str  # that carries it: "beta"; "" where none does, and the bundle itself keeps to it
    of_trainer: bool  # an argument of the trainer that the bundle brings; False: of the configuration class
    elsewhere: Mapping[str, tuple[str, ...]]  # of TOOLS -> its names for the key, beside an argument of the class
    title: str  # for editors: "Beta"
    description: str  # for editors and the reference of keys
    formula: str  # of READ_BY_FORMULAS, which decides it from the data; "" where `value` is the answer
    value: float | str
    because: str
    source: str
    accepts: tuple[float, float] | None  # inclusive; outside it a recipe's value is warned about
    above: float | None  # the schema's bounds: above < value <= most; None for a name
    closed: bool  # the lower bound is a value too: above <= value <= most
    whole: bool  # of a number: it has no fraction
    most: float | None
    values: Mapping[str, str] | None  # of a name: each value and what it means; None for a number
    changes: Mapping[float | str, Mapping[str, Any]]  # value -> of CHANGEABLE, what it makes of them
    watch: str
    page: str  # what `recipec explain ID` says

    def allows(self, value: float | str) -> bool:
        """Whether a recipe may set it to the value."""
        if self.values is not None:
            return value in self.values
        low = isinstance(value, int | float) and (self.above < value or (self.closed and value == self.above))
        return low and value <= self.most and not (self.whole and value % 1)
