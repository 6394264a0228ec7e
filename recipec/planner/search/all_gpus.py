"""Global batches that all GPUs of a recipe can share."""

from __future__ import annotations

from math import lcm

from recipec.axes import METHODS
from recipec.planner.search.context import Context
from recipec.planner.search.sequences import settled_method
from recipec.rules.core import Ledger
from recipec.units import counted


def sequences_for_all(context: Context, served_by: int = 0) -> int:
    """The smallest global batch with which each GPU has a micro batch, but those of a server, which do not train; GPUs
    that share layers have one together."""
    wish = {key: each.value for key, each in context.wishes.items()}
    shared = wish.get("train.tensor_parallel", 1) * wish.get("train.context_parallel", 1)
    each = wish.get("train.micro_batch_size", METHODS[context.stage.name].least_micro_batch)
    return max(1, (context.facts.machines.gpus - served_by) // shared) * each


def next_batch(context: Context, ledger: Ledger) -> int:
    """An example for every GPU, or twice the global batch. Ranks share answers equally and in whole groups, so where
    not all GPUs can share a batch of answers, the next that they can."""
    method, batch = settled_method(ledger.decisions), ledger.decisions["global_batch_size"].value
    if uneven_answers(context, ledger):
        unit = shared_by_all(context, ledger)
        return int(batch + unit - batch % unit)
    least = context.facts.machines.gpus * method.least_micro_batch
    return least if batch < least else 2 * batch


def shared_by_all(context: Context, ledger: Ledger) -> int:
    """The smallest batch of answers that all GPUs which train share equally, and that has all answers of a prompt."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    return lcm(sequences_for_all(context, value.get("server_gpus", 0)), value.get("per_prompt", 1))


def uneven_answers(context: Context, ledger: Ledger) -> str:
    """Why a global batch of answers leaves GPUs idle; "" where all can share it, or none is written."""
    method, batch = settled_method(ledger.decisions), ledger.decisions["global_batch_size"].value
    if not method.generates or batch % (unit := shared_by_all(context, ledger)) == 0:
        return ""
    return f"the global batch has {counted(batch, method.example)}, and all GPUs can share only multiples of {unit}"
