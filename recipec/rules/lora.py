"""The shape of the adapter: rank, alpha, dropout, and which layers get one."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import applies, choose, method_of
from recipec.rules.words import gpu_memory

NEW_DOMAIN_RANK = 64  # rule book 001, Anti-Pattern 2: 16 -> 64
SMALL_MEMORY_RANK = 32  # rule book 001, Available compute: under 16 GB


@rule(
    "LORA-001",
    decides="lora_rank",
    key="train.lora.rank",
    defaults="lora_rank",
    watch="loss, train_eval_gap: both losses high and flat ask for more rank, a widening gap for less",
    source="rule book 001, Key Hyperparameter Rules (LoRA rank), Available compute?, Anti-Patterns 1, 2 and 6; "
    "003, Stack Defaults",
)
def lora_rank(stage: str, new_domain: bool, examples: int, total_vram_gib: float, gpu_is_cpu: bool) -> Choice:
    """Decides the rank of the adapter: 16, more where more has to be learned, at most 32 under 16 GB.

    Both 001 (Step 3) and 003 start at 16. 001 gives 8-64 "higher for harder tasks" and 16-64 for DPO: a new domain and
    continued pretraining get 64, its remedy for underfitting; more than 100K examples get 32. Under 16 GB of GPU
    memory 001 caps the rank at 32. The reference that rule book 000 lost (moshi-finetune) uses 128 for speech with
    alpha = 2 r; that is outside every range here and is left to the recipe.
    """
    row = next(row for row in method_of(stage).lora_rank if applies(row, "", examples, 0))
    wanted, why = int(row.value), row.because
    if new_domain and wanted < NEW_DOMAIN_RANK:
        wanted, why = NEW_DOMAIN_RANK, "a new domain needs capacity"
    low, high = map(int, row.accepts or (row.value, row.value))
    if gpu_memory(total_vram_gib, gpu_is_cpu) == "<16":
        high = min(high, SMALL_MEMORY_RANK)
    if wanted > high:
        wanted, why = high, f"{why}; capped because {total_vram_gib:g} GiB of GPU memory is under 16 GB"
    return Choice(wanted, why, accepts=(low, high))


@rule(
    "LORA-002",
    decides="lora_alpha",
    key="train.lora.alpha",
    watch="grad_norm, loss: alpha scales the update like a learning rate; spikes mean that it is too high",
    source="rule book 001, Key Hyperparameter Rules (LoRA alpha); 003, Stack Defaults; 000, LoRA Configuration",
)
def lora_alpha(stage: str, lora_rank: int) -> Choice:
    """Decides the scale of the adapter: twice the rank, so that a change of rank leaves the update's size alone.

    16 and 32 in 001 and 003, scaling 2.0 in the reference that 000 names: all three are alpha = 2 r. 001's ranges
    are 16-128, and 16-64 for DPO, where alpha is capped at 64.
    """
    low, high = 16, method_of(stage).lora_alpha_most
    alpha = max(low, min(2 * lora_rank, high))
    return Choice(alpha, f"twice the rank, within {low} to {high}", accepts=(low, high))


@rule(
    "LORA-003",
    decides="lora_dropout",
    key="train.lora.dropout",
    defaults="lora_dropout",
    watch="train_eval_gap: over 0.2 for 3 evaluations is overfitting; raise dropout towards 0.2",
    source="rule book 001, Step 3, Anti-Pattern 1 (0.05 -> 0.2), Optuna (0.0-0.3)",
)
def lora_dropout(stage: str, examples: int) -> Choice:
    """Decides the dropout on the adapter's input: 0.05, twice that on very little data.

    001 starts at 0.05 and raises it to 0.2 against overfitting. Under 1K examples, where rule book 001 also asks for
    five epochs and more, we start at 0.1, half way. Continued pretraining sees each text once and takes 0. So does DPO,
    which compares the policy with its reference; its trainer switches dropout off unless it is told otherwise.
    """
    return choose(method_of(stage).lora_dropout, "", examples, 0)


_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


@rule(
    "LORA-004",
    decides="lora_targets",
    key="train.lora.targets",
    watch="loss, trained_tokens: flat loss with trained tokens present asks for more targets",
    source="rule book 001, Rules (attention and FFN), Step 3; against 003, Which fine-tuning method? (q_proj + v_proj)",
)
def lora_targets(moe: bool) -> Choice:
    """Decides which layers get an adapter: every linear layer of a dense decoder, attention in a mixture of experts.

    The books disagree: 003 names q_proj and v_proj, 001 all seven (q, k, v, o, gate, up, down) and says why: adapt both
    attention and FFN. We follow 001; on Llama-2-7B at rank 16 it trains 0.59 % of the parameters instead of 0.12 %,
    which changes memory little because the base dominates. "all-linear" is PEFT's name for it; it leaves lm_head out,
    which SFTTrainer would refuse.
    In a mixture of experts "all-linear" also reaches the router and the fused expert weights: PEFT 0.21 refuses those
    with dropout (BAD-010), and moving the router moves the balance of the experts. There we adapt attention only.
    """
    if moe:
        return Choice(_ATTENTION, "attention alone is adapted: experts and router of the mixture stay as they are")
    return Choice("all-linear", "attention and feed-forward layers both need adapters to reach full quality")
