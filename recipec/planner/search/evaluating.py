"""How many rows a rank evaluates at once during training: an evaluation keeps no activations."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.axes.models import TEACHER
from recipec.estimate.evaluation import TOKENS_AT_ONCE
from recipec.estimate.memory import step_memory
from recipec.facts import Facts
from recipec.planner.search.bounds import Bounds
from recipec.planner.search.candidates import Candidate, usable_bytes, usual_time
from recipec.planner.search.sequences import settled_method
from recipec.planner.search.workload import work_of
from recipec.rules.core import Ledger


def evaluation_batch(facts: Facts, ledger: Ledger, chosen: Candidate, bounds: Bounds) -> int:
    """The micro batch of the training, doubled as long as that fits and scores a row in less time.

    Where answers are written, as many as are written together, up to a limit.
    """
    if settled_method(ledger.decisions).generates:
        return chosen.layout.evaluated
    if facts.gpu.kind == "cpu":
        return chosen.layout.micro_batch
    shape, work = facts.model.architecture, work_of(ledger, facts)
    room = usable_bytes(facts.gpu, chosen.layout.mesh.world_size)
    fitting = [
        size
        for size in _sizes(chosen, bounds)
        if step_memory(shape, replace(chosen.layout, micro_batch=size), work).moments["evaluation"] <= room
    ]
    most = chosen.layout.micro_batch
    return min(fitting, key=lambda size: batch_seconds(facts, chosen, bounds, size) / size, default=most)


def _sizes(chosen: Candidate, bounds: Bounds) -> Iterator[int]:
    """Up to so many rows of usual length as keep a GPU busy."""
    size = chosen.layout.micro_batch
    yield size
    while size * bounds.typical.seq_len_tokens < TOKENS_AT_ONCE[-1]:
        size *= 2
        yield size


def batch_seconds(facts: Facts, chosen: Candidate, bounds: Bounds, size: int) -> float:
    """Forward and backward of so many rows on each rank, which share launches and gathered weights."""
    layout = replace(chosen.layout, micro_batch=size, accumulation=1)
    terms = usual_time(facts.model.architecture, layout, bounds, facts.gpu).terms
    return terms["compute"] + terms.get(TEACHER, 0.0) + terms["communication"]
