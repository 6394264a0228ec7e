"""Where gradient checkpointing is the usual choice."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.words import gpu_memory

_SHORT = ", so where states are offloaded or layers shared, activations are recomputed, too"


@rule(
    "PREC-004",
    decides="checkpointing_default",
    watch="peak_memory_gib, tokens_per_second: near the plan",
    source="docs/rule-books/001.md, Rules; Decision tree: available compute; Step 4 (against: always); "
    "docs/rule-books/000.md, Gradient checkpointing; docs/rule-books/004.md, Golden rules; Anti-patterns; "
    "Implementation checklist",
)
def checkpointing_default(params: int, priority: str | None, total_vram_gb: float, gpu_is_cpu: bool) -> Choice:
    """Gradient (activation) checkpointing: what the rule books do without computing what fits.

    | when | the rule books | recipec |
    |---|---|---|
    | `goal.priority = "speed"` | - | as planned; every second or fourth layer alone may be recomputed |
    | more than 7B parameters | on | as planned |
    | less than 16 GB of GPU memory in total | on | as planned |
    | `goal.priority = "memory"` | - | on |
    | otherwise | - | as planned (STRAT-005) |

    Rule book 001 requires it above 7B parameters and under 16 GB of GPU memory, rule book 004 for large models and long
    sequences. Rule book 001 also lists it for full fine-tuning on 48 to 160 GB and sets it in its arguments. These are
    defaults for what is not planned. The planner computes what activations take: where a layout that keeps them fits
    and is as fast or faster, recomputing would cost up to a third of the step for memory that nothing else needs.
    Where memory comes first, every layer is recomputed all the same.

    "7B" is counted, not read off the name. Llama-2-7B has 6.7e9 parameters and is not above it; Qwen2.5-7B has 7.6e9
    and is. `train.activation_checkpointing` fixes what is done.
    """
    billions = params / 1e9
    if priority == "speed":
        return Choice(False, "the recipe puts speed first, so gradient checkpointing is used only where it is needed")
    if billions > 7:
        return Choice(True, f"{billions:.1f}B parameters are more than 7B{_SHORT}")
    if gpu_memory(total_vram_gb, gpu_is_cpu) == "<16":
        return Choice(True, f"{total_vram_gb:.1f} GB of GPU memory is less than 16 GB{_SHORT}")
    if priority == "memory":
        return Choice(True, "the recipe puts memory first")
    return Choice(False, "the model has no more than 7B parameters, so the planner decides")
