"""What the hardware and the recipe allow a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recipec.estimate.links import Link, link_of
from recipec.estimate.work import Work
from recipec.facts import Facts
from recipec.planner.choose import GIB, Bounds
from recipec.planner.settle import Context, work_of
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision, Ledger


def bounds_of(context: Context, ledger: Ledger, loaded: LoadedRecipe) -> Bounds:
    """The bounds of a stage under one adaptation."""
    facts, value, hardware = context.facts, ledger.decisions, loaded.recipe.hardware
    host, micro_batch = hardware.host_memory_gib, context.wishes.get("train.micro_batch_size")
    return Bounds(
        memory_gib=facts.gpu.memory_gib,
        host_bytes=None if host is None else int(host * GIB),
        global_batch=value["global_batch_size"].value,
        micro_batch=None if micro_batch is None else micro_batch.value,
        link=_link(facts, hardware.gpu_link or "auto"),
        typical=_typical(work_of(ledger), value),
    )


def _link(facts: Facts, kind: str) -> Link:
    network = facts.decisions.get("network_gbps")
    rate = () if network is None else (network.value,)
    return link_of(facts.gpu, kind, facts.machines.gpus_per_node, *rate)


def _typical(work: Work, value: Mapping[str, Decision]) -> Work:
    """The step with rows of the usual length, which decide the time; the longest ones decide the memory."""
    if value["packing"].value:
        return work
    return replace(work, seq_len_tokens=min(work.seq_len_tokens, value["tokens_per_example"].value))
