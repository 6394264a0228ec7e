"""Where activations must be recomputed instead of kept."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.words import gpu_memory


@rule(
    "PREC-004",
    decides="checkpointing_required",
    key="train.activation_checkpointing",
    watch="peak_memory_gib, tokens_per_second: memory falls to the plan's figure at about a third more compute",
    source="rule book 001, Rules (models > 7B), Decision Tree (< 16 GB: required); 000, Gradient Checkpointing",
)
def checkpointing_required(params: int, priority: str | None, total_vram_gib: float, gpu_is_cpu: bool) -> Choice:
    """Decides whether activation checkpointing is required; where it is not, the planner still may choose it.

    001 requires it for models of more than 7B parameters and under 16 GB of GPU memory; a recipe that puts memory
    first gets it too. 001 also lists it beside full fine-tuning on 48-160 GB, which we leave to the planner: a
    small model there has room, and recomputing costs about a third of the step. "7B" is counted, not read off the
    name: Llama-2-7B has 6.7e9 parameters and is not over it, Qwen2.5-7B has 7.6e9 and is. A recipe that
    puts speed first leaves it to the planner, which then recomputes only where memory asks for it, and only every
    second or fourth layer where that fits and is faster (`train.recompute_every`).
    """
    billions = params / 1e9
    if priority == "speed":
        return Choice(False, "the recipe puts speed first, so layers are recomputed only where memory needs it")
    if billions > 7:
        return Choice(True, f"{billions:.1f}B parameters are more than 7B")
    if gpu_memory(total_vram_gib, gpu_is_cpu) == "<16":
        return Choice(True, f"{total_vram_gib:g} GiB of GPU memory is under 16 GB")
    if priority == "memory":
        return Choice(True, "the recipe puts memory first")
    return Choice(False, f"{billions:.1f}B parameters are not more than 7B, so the planner decides")
