"""How many optimizer steps a plan counts: as many as the Trainer takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, compiled, with_key

from recipec.rules.evaluation import training_rows

CASES = ((42, 92, 9), (10, 32, 3), (240, 32, 5), (400, 64, 3), (1_001, 16, 2.5))  # rows, global batch, epochs


def recipe(rows: int, batch: int, epochs: float) -> dict:
    data = {"data.examples": rows, "train": {"global_batch_size": batch, "epochs": epochs}}
    found = BASES["cpu"]
    for key, value in data.items():
        found = with_key(found, key, value)
    return found


@pytest.mark.parametrize(("rows", "batch", "epochs"), CASES)
def test_steps_are_those_of_the_trainer(tmp_path: Path, rows: int, batch: int, epochs: float) -> None:
    """Every pass over the rows ends with a step of what is left of them."""
    from torch.utils.data import DataLoader
    from transformers import Trainer

    plan = compiled(tmp_path, recipe(rows, batch, epochs), only_plan=True).plan
    assert plan
    stage = plan.stages[0]
    trained = training_rows({id: decision.value for id, decision in stage.decisions.items()})
    layout = stage.layout
    given = SimpleNamespace(
        max_steps=-1, num_train_epochs=epochs, gradient_accumulation_steps=layout.accumulation, world_size=1
    )
    trainer = SimpleNamespace(
        get_total_train_batch_size=lambda args: layout.global_batch,
        get_sp_size=lambda: 1,
        num_examples=lambda loader: trained,
    )
    loader = DataLoader(range(trained), batch_size=layout.micro_batch)
    found = Trainer.set_initial_training_values(trainer, given, loader)
    assert stage.steps == found[-1]


def test_a_stated_number_that_leaves_no_row_is_planned_with_one(tmp_path: Path) -> None:
    plan = compiled(tmp_path, with_key(BASES["cpu"], "data.examples", 2), only_plan=True).plan
    assert plan and plan.stages[0].decisions["passes"].value == plan.stages[0].decisions["epochs"].value
