"""The global batch where something else than its rule has a say: GPUs without work, and answers that are compared."""

from __future__ import annotations

from math import lcm

from msgspec.structs import replace

from recipec.planner.search.sequences import training_sequences
from recipec.rules.core import Ledger

NOTHING_FITS, IDLE, WAITS = "no layout that trains this fits", "GPUs would be idle", "GPUs would wait for each other"
SLOWER = "an example takes clearly longer"
ENOUGH_STEPS = 100  # with a batch that is larger than the usual one; our decision


def largest_batch(ledger: Ledger) -> float:
    """The largest global batch that its rule accepts, and with which there are enough steps; 0 where it accepts none
    but its own."""
    accepts = ledger.decisions["global_batch_size"].accepts
    return min(accepts[1], most_with_steps(ledger)) if accepts else 0


def most_with_steps(ledger: Ledger) -> float:
    """The largest global batch with which there are enough steps."""
    value = {id: each.value for id, each in ledger.decisions.items()}
    return training_sequences(value) * value["passes"] / ENOUGH_STEPS


def raise_batch(ledger: Ledger, least: int, short: str) -> None:
    """A larger global batch, or the largest that the rule accepts, for what is wrong with the one that it decided;
    where nothing fits with that one, a smaller one is not accepted."""
    batch = ledger.decisions["global_batch_size"]
    least = min(least, int(batch.accepts[1])) if batch.accepts else 0
    if batch.origin == "recipe" or batch.accepts is None or batch.value >= least:
        return
    why = f"raised from {batch.value}, with which {short}; {batch.because}"
    accepts = (least, batch.accepts[1]) if short == NOTHING_FITS else batch.accepts
    inputs = tuple(dict.fromkeys((*batch.inputs, "gpus")))
    ledger.decisions[batch.id] = replace(
        batch, value=least, because=why, inputs=inputs, accepts=accepts, origin="planner"
    )


def beside_server(ledger: Ledger) -> None:
    """A global batch that is raised for all GPUs leaves out those of a server, which are decided after it."""
    batch = ledger.decisions["global_batch_size"]
    if "server_gpus" in ledger.decisions and "gpus" in batch.inputs:
        ledger.decisions[batch.id] = replace(batch, inputs=(*batch.inputs, "server_gpus"))


def whole_groups(ledger: Ledger) -> None:
    """A global batch of answers that holds all of each prompt, where the recipe does not set it; in micro batches of
    the size that it sets."""
    batch, group = ledger.decisions["global_batch_size"], ledger.decisions["per_prompt"].value
    micro = ledger.wishes["train.micro_batch_size"].value if "train.micro_batch_size" in ledger.wishes else 1
    unit = lcm(group, micro)
    if batch.origin == "recipe" or batch.value % unit == 0:
        return
    whole = max(unit, round(batch.value / unit) * unit)
    split = f" in micro batches of {micro}" if micro > 1 else ""
    because = f"the nearest to {batch.value} that holds all {group} answers of each prompt{split}; {batch.because}"
    inputs = (*batch.inputs, "per_prompt")
    ledger.decisions[batch.id] = replace(batch, value=whole, because=because, inputs=inputs)
