"""A number of steps or rows, or none, where a recipe states a share of them."""

from __future__ import annotations

from typing import Any

from recipec.recipe.document import value_at
from recipec.recipe.locate import KeyPath

NO_ROWS = "every run is judged by rows that it does not learn: leave the key out, or set a small share such as 0.01"
_OF_STEPS, _OF_ROWS = ("warmup", "eval_every", "save_every"), ("eval_fraction", "test_fraction")


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
    return (share,) if steps else (share, "`recipec plan` shows how many steps there are; `train.max_steps` sets them")


def worked_out(value: float, whole: Any, unit: str) -> str:
    """What share a number is of a whole, or how to work that out where the whole is not known."""
    if isinstance(whole, bool) or not isinstance(whole, int | float) or not value < whole:
        return f": {value:g} {unit} of all are {value:g} divided by their number"
    return f": {value:g} of {whole:,} {unit} are {value / whole:.3g}"
