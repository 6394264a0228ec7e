"""How many rows a rank evaluates at once during training: an evaluation keeps no activations."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.estimate.evaluation import TOKENS_AT_ONCE
from recipec.estimate.memory import step_memory
from recipec.estimate.throughput import step_time
from recipec.facts import Facts
from recipec.planner.search.candidates import Bounds, Candidate, usable_bytes
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
    return min(fitting, key=lambda size: _seconds_per_row(facts, chosen, bounds, size), default=most)


def _sizes(chosen: Candidate, bounds: Bounds) -> Iterator[int]:
    """Up to so many rows of usual length as keep a GPU busy."""
    size = chosen.layout.micro_batch
    yield size
    while size * bounds.typical.seq_len_tokens < TOKENS_AT_ONCE[-1]:
        size *= 2
        yield size


def _seconds_per_row(facts: Facts, chosen: Candidate, bounds: Bounds, size: int) -> float:
    """Of forward and backward, which share what a larger batch saves: launches and gathered weights."""
    layout = replace(chosen.layout, micro_batch=size, accumulation=1)
    terms = step_time(facts.model.architecture, layout, bounds.typical, facts.gpu, bounds.link).terms
    return (terms["compute"] + terms["communication"]) / size
