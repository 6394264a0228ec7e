"""Where gradient checkpointing is required."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.words import gpu_memory


@rule(
    "PREC-004",
    decides="checkpointing_required",
    key="train.activation_checkpointing",
    watch="peak_memory_gib, tokens_per_second: memory matches the plan; a step takes about a third more computation",
    source="docs/rule-books/001.md, Rules; Decision tree: available compute; Step 4 (against: always); "
    "docs/rule-books/000.md, Gradient checkpointing; docs/rule-books/004.md, Golden rules; Anti-patterns; "
    "Implementation checklist",
)
def checkpointing_required(params: int, priority: str | None, total_vram_gib: float, gpu_is_cpu: bool) -> Choice:
    """Gradient (activation) checkpointing: required for large models, otherwise left to the planner.

    | when | gradient checkpointing |
    |---|---|
    | `goal.priority = "speed"` | the planner decides, and may checkpoint every second or fourth layer only |
    | more than 7B parameters | required |
    | less than 16 GB of GPU memory in total | required |
    | `goal.priority = "memory"` | required |
    | otherwise | the planner decides (STRAT-005) |

    Rule book 001 requires it above 7B parameters and under 16 GB of GPU memory, rule book 004 for large models and long
    sequences. Rule book 001 also lists it for full fine-tuning on 48 to 160 GB and sets it in its arguments. recipec
    leaves both to the planner: a small model has room, and recomputing costs about a third of the step.

    "7B" is counted, not read off the name. Llama-2-7B has 6.7e9 parameters and is not above it; Qwen2.5-7B has 7.6e9
    and is. Set `train.activation_checkpointing = false` where the plan shows that the model fits without.
    """
    billions = params / 1e9
    if priority == "speed":
        return Choice(False, "the recipe puts speed first, so gradient checkpointing is used only where it is needed")
    if billions > 7:
        return Choice(True, f"{billions:.1f}B parameters are more than 7B")
    if gpu_memory(total_vram_gib, gpu_is_cpu) == "<16":
        return Choice(True, f"{total_vram_gib:.1f} GiB of GPU memory is less than 16 GB")
    if priority == "memory":
        return Choice(True, "the recipe puts memory first")
    return Choice(False, "the model has no more than 7B parameters, so the planner decides")
