"""A number of steps or rows, or none, where a recipe states a share of them."""

from __future__ import annotations

from math import inf
from typing import Any

from recipec.recipe.document import value_at
from recipec.recipe.locate import KeyPath

NO_ROWS = "every run is judged by rows that it does not learn: leave the key out, or set a small share such as 0.01"
_OF_STEPS, _OF_ROWS = ("warmup", "eval_every", "save_every"), ("eval_fraction", "test_fraction")
_MOST_PER_EPOCH = 20  # a larger number is one of steps
_MOST_COUNTED = 1000  # that a count per epoch of axolotl is read as
_COUNTED = {"eval_every": "evaluation", "save_every": "checkpoint"}  # what people count per epoch
_PER_EPOCH = {"evals_per_epoch": "eval_every", "saves_per_epoch": "save_every"}  # of axolotl


def as_share(path: KeyPath, value: Any, data: Any) -> tuple[str, ...]:
    """What a number of 1 or more is as a share, as far as the recipe says of how many; why 0 is none."""
    name = path[-1]
    if name in _OF_ROWS and value == 0:
        return (NO_ROWS,)
    if name not in (*_OF_STEPS, *_OF_ROWS) or not isinstance(value, int | float) or value < 1:
        return ()
    if name in _OF_ROWS:
        return (f"it is a share of the rows{worked_out(value, value_at(data, ('data', 'examples')), 'rows')}",)
    steps = value_at(data, (*path[:-1], "max_steps")) or value_at(data, ("train", "max_steps"))
    share = f"it is a share of the steps{worked_out(value, steps, 'steps')}"
    few = name in _COUNTED and value <= _MOST_PER_EPOCH and value == int(value)
    counted = (per_epoch(name, value, value_at(data, ("train", "epochs"))),) if few else ()
    shown = "`recipec plan` shows how many steps there are; `train.max_steps` sets them"
    return (share, *counted) if steps else (share, shown, *counted)


def as_counted(path: KeyPath, value: Any, data: Any) -> str:
    """What to write for axolotl's evaluations or checkpoints per epoch; "" for other keys and values."""
    name = _PER_EPOCH.get(str(path[-1]).lower())
    if name is None or isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST_COUNTED:
        return ""
    return per_epoch(name, value, value_at(data, ("train", "epochs")))


def per_epoch(name: str, count: float, epochs: Any) -> str:
    """The share of the steps between two of so many in an epoch, as a fraction where the recipe has its epochs."""
    what, form = f"{count:g} {_COUNTED[name]}{'s' * (count != 1)} per epoch", f"1 / ({count:g} x `train.epochs`)"
    if isinstance(epochs, bool) or not isinstance(epochs, int | float) or not 1 < count * epochs < inf:
        return f"for {what}, set `train.{name}` to {form}, for example {1 / (count * 3):.3g} for 3 epochs"
    return f"for {what}, set `train.{name} = {1 / (count * epochs):.3g}`: 1 / ({count:g} x {epochs:g} epochs)"


def worked_out(value: float, whole: Any, unit: str) -> str:
    """What share a number is of a whole, or how to work that out where the whole is not known."""
    if isinstance(whole, bool) or not isinstance(whole, int | float) or not value < whole:
        return f": {value:g} {unit} of all are {value:g} divided by their number"
    return f": {value:g} of {whole:,} {unit} are {value / whole:.3g}"
