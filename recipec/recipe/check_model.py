"""What goes with a named model, and what goes with `auto`."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic
from recipec.recipe.exclusive import AUTO, NAMED_ONLY, STEERING
from recipec.recipe.locate import dotted
from recipec.recipe.written import Written

_NAME = ("model", "name")


def idle_model_keys(written: Written) -> Iterator[Diagnostic]:
    """Keys that steer the choice of a model need `auto`; keys about one model need its name."""
    name = written.get(*_NAME)
    if name is None:
        return
    chosen = name == AUTO
    for path in NAMED_ONLY if chosen else STEERING:
        if written.has(*path):
            why = "says something of one model" if chosen else "steers the choice of a model"
            other = "no model is named here" if chosen else "the model is named here"
            help = "name the model, or remove this key" if chosen else f'use name = "{AUTO}", or remove this key'
            title = f"`{dotted(path)}` and `model.name = {name}` contradict each other"
            yield Diagnostic("E0401", title, (written.label(path, why), written.label(_NAME, other)), (help,))
