"""What is said of a global batch that the ranks of the layout cannot make: which one they make, and how near it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key
from msgspec.structs import replace

from recipec.layout import Layout
from recipec.planner.outcome import run_batch
from recipec.rules.core import Decision, Ledger


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    plan = compiled(tmp_path_factory.mktemp("case"), BASES["lora-single"], only_plan=True).plan
    assert plan is not None
    return plan.stages[0].layout


def told(layout: Layout, decided: int, ranks: int, micro: int, steps: int) -> Decision:
    """The decision when the ranks make `steps` micro batches each."""
    mesh = replace(layout.mesh, replicate=ranks, shard=1)
    made = replace(layout, mesh=mesh, micro_batch=micro, accumulation=steps)
    batch = Decision("global_batch_size", decided, "usual", accepts=(32, 512))
    ledger = Ledger()
    ledger.decisions[batch.id] = batch
    run_batch(ledger, made)
    return ledger.decisions[batch.id]


@pytest.mark.parametrize(
    ("decided", "ranks", "micro", "steps", "said"),
    [
        (512, 24, 13, 1, "the largest below 512 that 24 ranks can make in micro batches of 13; usual"),
        (512, 72, 7, 1, "the nearest to 512 that 72 ranks can make in micro batches of 7; usual"),
        (512, 136, 4, 1, "the nearest to 512 that 136 ranks can make in micro batches of 4, which counts as the 512 "),
        (100, 48, 1, 2, "the nearest to 100 that 48 ranks can make; usual"),
        (96, 64, 1, 1, "the nearest to 96 that 64 ranks can make; usual"),
        (97, 64, 1, 1, "the largest below 97 that 64 ranks can make; usual"),
    ],
)
def test_a_batch_is_called_nearest_only_where_no_other_is_nearer(
    layout: Layout, decided: int, ranks: int, micro: int, steps: int, said: str
) -> None:
    batch = told(layout, decided, ranks, micro, steps)
    assert batch.value == ranks * micro * steps and batch.because.startswith(said), batch.because


def test_a_batch_that_ranks_make_is_said_as_it_was_decided(layout: Layout) -> None:
    assert told(layout, 64, 8, 4, 2).because == "usual"


def test_a_batch_above_the_decided_one_is_taken_where_ranks_would_make_clearly_fewer(tmp_path: Path) -> None:
    """48 GPUs make 48 of 64 rows, in which all of them wait for the network longer than with 96."""
    recipe = with_key(BASES["lora-single"], "model.name", "meta-llama/Llama-3.1-70B")
    recipe["data"] |= {"examples": 8_000, "tokens_per_example": 500, "max_length": 2_048}
    recipe |= {"hardware": {"gpu": "a100-80gb", "gpus_per_node": 8, "nodes": 6, "network_gbps": 3_200}}
    recipe["train"] = {"adaptation": "full"}
    batches = None, 48
    plans = [
        compiled(tmp_path, with_key(recipe, "train.global_batch_size", batch), only_plan=True).plan for batch in batches
    ]
    found, fewer = (plan.stages[0] for plan in plans if plan)
    assert found.layout.global_batch == 96 and fewer.seconds > 1.25 * found.seconds
    because = found.decisions["global_batch_size"].because
    assert because.startswith("raised from 64, with which an example takes clearly longer; ")
