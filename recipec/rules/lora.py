"""The shape of the adapter: rank, alpha, dropout, and which layers get one."""

from __future__ import annotations

from math import sqrt

from recipec.axes.adaptations import ALL_LINEAR
from recipec.axes.lora_variants import BY_ROOT, LORA_VARIANTS, STANDARD
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import applies, choose, method_of
from recipec.rules.words import gpu_memory

NEW_DOMAIN_RANK = 64  # rule book 001, Anti-pattern 2: 16 -> 64
LEAST_ALPHA = 16  # rule book 001, Key hyperparameters
SMALL_MEMORY_RANK = 32  # rule book 001, Decision tree: available compute: under 16 GB
USUAL_RANK = 16  # rule books 001 and 003


@rule(
    "LORA-001",
    decides="lora_rank",
    key="train.lora.rank",
    defaults="lora_rank",
    watch="loss, train_eval_gap: both losses fall; if they stay high, raise `train.lora.rank`, and if the gap widens, "
    "lower it",
    source="docs/rule-books/001.md, Key hyperparameters; Decision tree: available compute; Step 3; Rules; "
    "Anti-patterns 1, 2 and 6; docs/rule-books/003.md, Stack defaults; Which fine-tuning method; "
    "docs/rule-books/000.md, LoRA configuration (against: moshi-finetune)",
)
def lora_rank(stage: str, new_domain: bool, examples: int, total_vram_gb: float, gpu_is_cpu: bool) -> Choice:
    """LoRA rank: 16, more where more must be learned, at most 32 on less than 16 GB of GPU memory.

    Rule books 001 and 003 start with 16. Rule book 001 gives 8 to 64, "higher for harder tasks", and 16 to 64 for DPO.
    Its remedy for underfitting is 64: a new domain and continued pretraining get it. More than 100,000 rows get 32,
    which is recipec's choice; a conversation is one row, also where each of its answers becomes a row. On less than
    16 GB of GPU memory rule book 001 caps the rank at 32.

    Rule book 000 names moshi-finetune as the reference of its LoRA configuration. The README of moshi-finetune uses
    128, for speech. That is outside every range of the rule books; set `train.lora.rank` to use it.
    """
    row = next(row for row in method_of(stage).lora_rank if applies(row, "", examples, 0))
    wanted, why = int(row.value), row.because
    if new_domain and wanted < NEW_DOMAIN_RANK:
        wanted, why = NEW_DOMAIN_RANK, "a new domain needs more capacity than the usual rank of 16"
    assert row.accepts is not None  # E0801 refuses a rank without a range
    low, high = map(int, row.accepts)
    if gpu_memory(total_vram_gb, gpu_is_cpu) == "<16":
        high = min(high, SMALL_MEMORY_RANK)
    if wanted > high:
        wanted, why = high, f"{why}; limited because {total_vram_gb:.1f} GB of GPU memory is less than 16 GB"
    return Choice(wanted, why, accepts=(low, high), source=row.source if wanted == row.value else "")


@rule(
    "LORA-002",
    decides="lora_alpha",
    key="train.lora.alpha",
    watch="grad_norm, loss: no spikes; if there are, lower `train.lora.alpha` or `train.learning_rate`",
    source="docs/rule-books/001.md, Key hyperparameters; Step 3; docs/rule-books/003.md, Stack defaults; "
    "docs/rule-books/000.md, LoRA configuration (moshi-finetune); rsLoRA (arXiv 2312.03732, 2023); recipec's "
    "choice (8)",
)
def lora_alpha(stage: str, lora_rank: int, lora_variant: str = STANDARD.name) -> Choice:
    """LoRA alpha: twice the rank, so that another rank leaves the scale of the update alone; for rsLoRA 8.

    Rule books 001 and 003 write rank 16 and alpha 32. moshi-finetune, the reference that rule book 000 names, has a
    scaling of 2.0. All three are alpha = 2 x rank. The ranges of rule book 001 are 16 to 128, and 16 to 64 for DPO.
    With 16 to 64 for the rank of DPO, the second would cut the scale in half at rank 64, so recipec widens a range
    where twice the rank lies outside it.

    rsLoRA divides alpha by the root of the rank and is meant to keep one alpha for every rank. 8 has the scale of LoRA
    at the usual rank of 16, 2.0; twice the rank would be 4 times as much there, and 8 times at rank 64.
    """
    if LORA_VARIANTS[lora_variant].divides_alpha_by == BY_ROOT:
        return _alpha_by_root()
    alpha = 2 * lora_rank
    accepts = min(LEAST_ALPHA, alpha), max(method_of(stage).lora_alpha_most, alpha)
    return Choice(alpha, "twice the rank keeps the scale of the update the same for every rank", accepts)


def _alpha_by_root() -> Choice:
    """The scales that rule book 001 accepts at the usual rank, 1 to 8, times the root of that rank."""
    root = round(sqrt(USUAL_RANK))
    why = f"over the root of the rank it has the scale of LoRA at rank {USUAL_RANK}, and stays for every other rank"
    return Choice(2 * root, why, accepts=(LEAST_ALPHA // root, 8 * root))


@rule(
    "LORA-003",
    decides="lora_dropout",
    key="train.lora.dropout",
    defaults="lora_dropout",
    watch="train_eval_gap: below 0.2; if above for 3 evaluations, train fewer epochs or lower the rank; where "
    "dropout is above 0, raise `train.lora.dropout` towards 0.2",
    source="docs/rule-books/001.md, Step 3; Anti-patterns 1 and 2; Hyperparameter optimization (0 to 0.3); "
    "PEFT 0.21.2 lora.ParamWrapper (no dropout on experts)",
)
def lora_dropout(stage: str, examples: int, lora_experts: tuple[str, ...], lora_variant: str = STANDARD.name) -> Choice:
    """LoRA dropout: 0.05, twice that under 1,000 rows, 0 on experts and where the table says so.

    Rule book 001 starts at 0.05 and raises dropout to 0.2 against overfitting; its search runs from 0 to 0.3. Under
    1,000 rows, where it also wants five epochs and more, recipec starts at 0.1. Continued pretraining sees each
    document once and takes 0. So do the methods that compare answers: their trainers switch dropout off.

    Adapters on fused experts are added to the weights before the product, so there is no input of theirs to drop
    (BAD-010): 0 for all adapters of the model. DoRA and PiSSA take 0: dropout makes DoRA compute the product with the
    base twice, and would drop parts of what PiSSA has taken out of the weights (BAD-063).
    """
    if not (variant := LORA_VARIANTS[lora_variant]).drops:
        return Choice(0.0, f"{variant.title} is used without dropout (BAD-063)")
    if lora_experts:
        return Choice(0.0, "adapters on the fused weights of experts have no dropout (BAD-010)")
    return choose(method_of(stage).lora_dropout, "", examples, 0)


@rule(
    "LORA-004",
    decides="lora_targets",
    key="train.lora.targets",
    watch="loss, trained_tokens: the loss falls; if it stays flat although trained_tokens is above 0, add layers to "
    "`train.lora.targets`",
    source="docs/rule-books/001.md, Rules; Step 3; docs/rule-books/000.md, LoRA configuration; docs/rule-books/003.md, "
    "Which fine-tuning method (against: q_proj and v_proj); QLoRA (arXiv 2305.14314, 2023, section 4); LoRA Without "
    "Regret (Thinking Machines Lab, 2025, doi 10.64434/tml.20250929); TRL 1.16 docs/source/lora_without_regret.md",
)
def lora_targets(moe: bool) -> Choice:
    """What gets an adapter: every linear layer of a dense model, attention and all experts of a mixture of experts.

    The rule books disagree. Rule book 003 names `q_proj` and `v_proj`. Rule book 001 names all seven linear layers of
    attention and feed-forward (q, k, v, o, gate, up, down) and does not say why. recipec follows rule book 001: the
    QLoRA paper found adapters on all linear layers necessary to match full fine-tuning. On Llama-2-7B at rank 16 they
    train 0.59% of the parameters instead of 0.12%, and the frozen base model still takes most of the memory.

    "all-linear" is PEFT's name for these layers. It leaves out `lm_head`, which SFTTrainer would refuse. In models with
    Mamba layers recipec names the modules and leaves out `out_proj`: the kernels of mamba-ssm take its weight past an
    adapter, which would then never be trained. PEFT refuses it for other types with Mamba layers.

    In a mixture of experts the experts hold most of the weights. LoRA Without Regret compared adapters on attention and
    on the feed-forward layers, also on Qwen3-30B-A3B-Base: attention only was worse, with as many parameters too, and
    added little to the others. TRL repeated it. So recipec adapts attention and every expert there. Their fused weights
    are reached by name (`target_parameters` of PEFT), which has a price: PEFT builds the adapted weights of a layer in
    every forward pass, and the plan counts them. PEFT's own "all-linear" would also train the router, whose balance is
    not to change; it stays frozen, and so does an MLP beside the experts (a shared expert), for which recipec's plans
    have no adapters yet.

    `targets = "attention"` adapts attention alone. A list names modules, and of the experts `experts.gate_up_proj` and
    `experts.down_proj`. Servers differ in what they load of adapters on experts: serve what merge_adapter.py writes.
    """
    if moe:
        return Choice(ALL_LINEAR, "attention and every expert: attention alone was worse in published runs")
    return Choice(ALL_LINEAR, "adapters on all linear layers were needed to match full fine-tuning in published runs")


@rule(
    "LORA-005",
    decides="lora_expert_rank",
    key="train.lora.expert_rank",
    watch="loss, train_eval_gap: both losses fall; if they stay high, raise `train.lora.expert_rank`",
    source="LoRA Without Regret (Thinking Machines Lab, 2025, doi 10.64434/tml.20250929, Layers where LoRA is applied)",
)
def lora_expert_rank(lora_rank: int, experts_per_token: int) -> Choice:
    """Rank on each expert: the rank, divided by the experts that a token passes.

    Every expert has an adapter of its own, so the rank counts as many times as a token passes experts. LoRA Without
    Regret divided it by 8 for Qwen3-30B-A3B: the adapters are then the same share of the experts that they are of
    attention. Alpha is divided alike, so that the scale of the update stays that of the other adapters.
    """
    why = f"the rank of {lora_rank}, divided by the {experts_per_token} experts that a token passes"
    return Choice(max(1, lora_rank // experts_per_token), why, accepts=(1, lora_rank))


@rule(
    "LORA-006",
    decides="lora_variant",
    key="train.lora.variant",
    watch="loss, eval_loss: compare them with a run of plain LoRA on the same rows",
    source="LoRA (arXiv 2106.09685, 2021); recipec's choice (plain LoRA until one is named)",
    combined="variant",
)
def lora_variant() -> Choice:
    """Variant of LoRA: none, until the recipe names one.

    Rates, ranks and the order of the adaptations are published for plain LoRA, and no rule book says when another one
    is better. `recipec list adaptations` has the variants, `recipec explain dora` the page of one. A variant changes
    the learning rate (OPT-001), alpha (LORA-002) and dropout (LORA-003) that recipec chooses.
    """
    return Choice(STANDARD.name, "plain LoRA: a variant is taken where the recipe names it")
