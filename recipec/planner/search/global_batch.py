"""The global batch where something else than its rule has a say: GPUs without work, and answers that are compared."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.rules.core import Ledger


def raise_batch(ledger: Ledger, least: int) -> None:
    """A larger global batch of those that the rule accepts, where GPUs would be idle with the one that it decided."""
    batch = ledger.decisions["global_batch_size"]
    if batch.origin == "recipe" or batch.accepts is None or not batch.value < least <= batch.accepts[1]:
        return
    why = f"raised from {batch.value}, with which GPUs would be idle; {batch.because}"
    ledger.decisions[batch.id] = replace(batch, value=least, because=why, inputs=(*batch.inputs, "gpus"))


def whole_groups(ledger: Ledger) -> None:
    """A global batch of answers that holds all of each prompt, where the recipe does not set it."""
    batch, group = ledger.decisions["global_batch_size"], ledger.decisions["per_prompt"].value
    if batch.origin == "recipe" or batch.value % group == 0:
        return
    whole = max(group, round(batch.value / group) * group)
    because = f"the nearest to {batch.value} that holds all {group} answers of each prompt; {batch.because}"
    inputs = (*batch.inputs, "per_prompt")
    ledger.decisions[batch.id] = replace(batch, value=whole, because=because, inputs=inputs)
