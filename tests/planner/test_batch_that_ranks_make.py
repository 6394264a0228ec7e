"""What is said of a global batch that the ranks of the layout cannot make: which one they make, and how near it is."""

from __future__ import annotations

import pytest
from compiling import BASES, compiled
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
