"""Batches that are too small to learn from, for a method that compares the examples of one (E0401)."""

from __future__ import annotations

from recipec.axes import METHODS
from recipec.diagnostics.model import Diagnostic, Label
from recipec.planner.search.context import Context
from recipec.recipe import LoadedRecipe

BATCHES = ("train.micro_batch_size", "train.global_batch_size")


def too_small(context: Context, loaded: LoadedRecipe) -> Diagnostic | None:
    """A method that compares the examples of a micro batch cannot learn from a smaller one (E0401)."""
    stage, wishes = context.stage.name, context.wishes
    asked = {own.name: wishes[key].value for own in METHODS[stage].own if (key := f"alignment.{own.key}") in wishes}
    row = METHODS[stage].under(asked)
    for key in (name.removeprefix("train.") for name in BATCHES):
        wish = wishes.get(f"train.{key}")
        if wish is not None and wish.value < row.least_micro_batch:
            table = ("train", stage) if loaded.is_set("train", stage, key) else ("train",)
            labels = (
                Label(loaded.place(*table, key), f"{stage} needs {row.least_micro_batch} or more"),
                Label(loaded.place("data", row.rows_in(context.facts.data)), row.least_micro_batch_because),
            )
            help = (f"use {key} = {row.least_micro_batch} or more",)
            return Diagnostic("E0401", f"`{'.'.join((*table, key))}` is too small for {row.title}", labels, help)
    return None
