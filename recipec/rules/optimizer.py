"""How far a step goes: learning rate, optimizer, weight decay, clipping."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, Adaptation
from recipec.axes.lora_variants import LORA_VARIANTS, STANDARD, LoraVariant
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import choose, method_of
from recipec.rules.optimizers import LION, decay_for, rate_for, scaled
from recipec.units import number

_FORGETTING = "a lower rate forgets less, but also learns less"


@rule(
    "OPT-001",
    decides="learning_rate",
    key="train.learning_rate",
    defaults="learning_rate",
    watch="loss, grad_norm: the loss falls after warmup; if it is NaN, halve `train.learning_rate`, and if it is flat "
    "after 100 steps, try other values",
    source="docs/rule-books/001.md, Key hyperparameters; Step 1; Step 4; Decision tree: data size for instruction "
    "tuning; Rules; Anti-pattern 6; docs/rule-books/002.md, Step 1 (against: 1e-3); Anti-patterns; "
    "docs/rule-books/003.md, Learning rate & schedule; LR ranges; docs/rule-books/000.md, LoRA configuration "
    "(against: moshi-finetune); GPT-3 (arXiv 2005.14165, 2020); LLaMA (arXiv 2302.13971, 2023); Pythia (arXiv "
    "2304.01373, 2023); Llama 3 (arXiv 2407.21783, 2024); QLoRA (arXiv 2305.14314, 2023); Lion (arXiv 2302.06675, "
    "2023); Adafactor (arXiv 1804.04235, 2018); LOMO (arXiv 2306.09782, 2023); LoRA Learns Less and Forgets Less "
    "(arXiv 2405.09673, 2024); PEFT 0.21.2 examples/pissa_finetuning and optimizers/loraplus.py; "
    "github.com/NVlabs/DoRA; huggingface.co/docs/peft/task_guides/ia3; recipec's choice (LoRA in continued "
    "pretraining, three quarters for DoRA, IA3 beside supervised fine-tuning)",
)
def learning_rate(
    stage: str,
    adaptation: str,
    examples: int,
    params: int,
    optimizer: str = "adamw",
    lora_variant: str = STANDARD.name,
) -> Choice:
    """Peak learning rate, by method, adaptation, the amount of data and the optimizer.

    | | rule book 001 | rule book 003 | recipec |
    |---|---|---|---|
    | full fine-tuning | 1e-5 to 5e-5; in its rules 5e-5 to 2e-5 | 5e-5, 5e-5 to 1e-4 | 2e-5, accepts 1e-5 to 5e-5 |
    | LoRA | 1e-4 to 5e-4, uses 2e-4; in its rules 1e-4 to 5e-5 | 2e-4, 1e-4 to 3e-4 | as QLoRA, accepts 1e-4 to 5e-4 |
    | QLoRA | 1e-4 to 3e-4 | no value | 2e-4, from 30B parameters on 1e-4; accepts 1e-4 to 3e-4 |
    | continued pretraining | 1e-5 to 5e-5 | 1e-5 to 5e-5 | all weights: 2e-5 of that range; LoRA: 1e-4 |

    2e-5 lies in both ranges of rule book 001 for full fine-tuning. 5e-5, the start of rule book 003, is the upper end,
    and 1e-4 is reported. For LoRA the rules of rule book 001 contradict its own table and rule book 003, so the table
    decides. The QLoRA paper trains 7B and 13B models with 2e-4, and 33B and 65B models with 1e-4. Its adapters are
    those of LoRA, so LoRA takes the same rates. 1e-3 of rule book 002 is made for a small classifier and far too high
    for a language model.

    Both rule books give continued pretraining 1e-5 to 5e-5 and do not say which weights train. An adapter needs a
    larger rate than all weights, so 1e-4 for LoRA is recipec's choice.

    Rule book 001 lowers LoRA to 1e-5 against forgetting. That is below the accepted range and is reported (W0501): a
    rate so low also learns less, and LoRA forgets less than full fine-tuning already. Against forgetting, replay
    general rows with `data.general` (REPLAY-001).

    Rule book 001 gives pretraining 1e-4 to 3e-4 for every size. Published runs vary the rate with the size of the
    model, and both ends of theirs leave that range.

    The values are for AdamW, in 8 bits too. Lion steps by the sign of its moment, so each step has the full size of the
    rate: it gets a tenth of AdamW's rate, and a tenth to a third of the range is accepted. Adafactor clips its steps to
    a root mean square of 1 and does not average them; AdamW's rates for it are recipec's choice. The steps of SGD are
    as long as the gradient: 0.03, from 1e-3 to 0.1, after the configuration published with LOMO, which is SGD for a 7B
    model. No source gives SGD a rate for adapters or for DPO.

    A variant of LoRA takes a share of LoRA's rate and range: DoRA three quarters (its authors say slightly lower),
    LoRA+ half (PEFT), PiSSA a tenth (PEFT's example has 2e-5). IA3 takes 40 times LoRA's: PEFT's guide trains it with
    8e-3. Nobody published rates of IA3 for other methods than supervised fine-tuning; the same factor is recipec's
    choice.
    """
    row = ADAPTATIONS[adaptation]
    published = choose(method_of(stage).learning_rate, adaptation, examples, params)
    rate = rate_for(optimizer, _share(_share(published, row), LORA_VARIANTS[lora_variant]))
    return rate if row.trains_all else replace(rate, below=_FORGETTING)


def _share(of_lora: Choice, row: Adaptation | LoraVariant) -> Choice:
    """The learning rate of an adaptation or variant, where plain LoRA's would be `of_lora`."""
    if row.rate == 1:
        return of_lora
    low, high = of_lora.accepts or (of_lora.value, of_lora.value)
    because = f"{row.rate:g} x LoRA's {number(of_lora.value)}, because {row.rate_because}; {of_lora.because}"
    accepts = scaled(low, row.rate), scaled(high, row.rate)
    return replace(of_lora, value=scaled(of_lora.value, row.rate), because=because, accepts=accepts)


@rule(
    "OPT-002",
    decides="optimizer",
    key="train.optimizer",
    watch="loss, peak_memory_gib: memory matches the plan; with another optimizer, compare the loss with an AdamW run",
    source="docs/rule-books/001.md, Step 4; docs/rule-books/002.md, Step 1; Step 2; docs/rule-books/000.md, Mixed "
    "precision; QLoRA (arXiv 2305.14314, 2023); Adafactor (arXiv 1804.04235, 2018); Lion (arXiv 2302.06675, 2023); "
    "LOMO (arXiv 2306.09782, 2023)",
)
def optimizer(adaptation: str, priority: str | None, gpu_is_cpu: bool) -> Choice:
    """Optimizer: AdamW, with 8-bit states where memory comes first and every weight is trained.

    Rule books 001 and 002 use AdamW. Its two fp32 moments are 8 bytes per trained parameter: little for an adapter,
    half of all memory for full fine-tuning. There, if the recipe puts memory first, bitsandbytes keeps the moments in
    about 2 bytes. The planner does the same in two cases. Where nothing else fits on the GPUs, it takes 8-bit moments
    before it holds data in host memory, unless fp32 moments beside activations in host memory train clearly faster.
    Where fp32 moments fit, but more than half of a step then waits for other GPUs, or the moments wait in host memory,
    it takes 8-bit moments if they train clearly faster.

    That optimizer does not run under FSDP or with CPU offload (BAD-004, BAD-005), nor where its kernels cannot count
    the weights (BAD-217), so the planner may fall back to AdamW. Rule book 000 wants fp32 master weights in mixed
    precision; AdamW updates fp32 weights.

    The QLoRA paper pages its optimizer states (section 3). Paging helps against spikes of memory, for which the planner
    leaves room. The states of an adapter are small, but so may be what a GPU has left beside a 4-bit base: where 8-bit
    states would make a plan faster, or leave more of a full GPU free, the plan names them with their figures.

    What a recipe may choose instead, in bytes of states per trained parameter, beside weights and gradients:

    | | bytes | use it when |
    |---|---|---|
    | adamw | 8 | it fits |
    | adamw-8bit | 2 | all weights are trained and memory is short |
    | paged-adamw, paged-adamw-8bit | 8 or 2, in host memory if need be | memory is short in some steps only |
    | adafactor | under 0.01 | all weights are trained and the states do not fit; T5 (1910.10683) was trained with it |
    | lion, lion-8bit | 4 or 1 | batches are large; its paper sees larger gains with larger batches |
    | sgd | 0 | nothing else fits; AdaLomo (2310.10195) finds it worse than AdamW, and its rate must be searched |

    Adafactor keeps row and column means of the squared gradients and no first moment; its step needs twice the largest
    matrix in fp32. SGD is without momentum. BAD-004, BAD-005 and BAD-030 say what runs with which sharding. AdEMAMix,
    RMSprop and Adagrad of transformers are not offered. GaLore, APOLLO, LOMO, GrokAdamW, schedule-free, torchao and
    StableAdamW need packages that are not among the pinned versions.
    """
    if not ADAPTATIONS[adaptation].trains_all:
        return Choice(
            "adamw",
            "the usual optimizer, whose fp32 moments take 8 bytes for each of an adapter's few parameters; where 8-bit "
            "moments would make room for a faster plan, it says so",
        )
    if priority == "memory" and not gpu_is_cpu:
        return Choice(
            "adamw-8bit", "the recipe puts memory first, and 8-bit moments take 2 bytes per parameter instead of 8"
        )
    return Choice("adamw", "the usual optimizer, whose fp32 moments take 8 bytes per parameter")


@rule(
    "OPT-003",
    decides="weight_decay",
    key="train.weight_decay",
    defaults="weight_decay",
    watch="train_eval_gap: small and steady; if it widens, raise `train.weight_decay` towards 0.1",
    source="docs/rule-books/001.md, Key hyperparameters; Step 4; Anti-pattern 1; docs/rule-books/002.md, Step 2; Step "
    "4 (against: 1e-6 to 1e-3); docs/rule-books/000.md, LoRA configuration (moshi-finetune); GPT-3 (arXiv 2005.14165, "
    "2020); LLaMA (arXiv 2302.13971, 2023); Lion (arXiv 2302.06675, 2023); LOMO (arXiv 2306.09782, 2023)",
)
def weight_decay(stage: str, optimizer: str = "adamw") -> Choice:
    """Weight decay: 0.01; 0.1 for both kinds of pretraining, 0 for SimPO and where rewards judge; Lion's 10 times that.

    Rule books 001 and 002 use 0.01. Rule book 001 goes to 0.1 against overfitting; its range is 0.01 to 0.1 in every
    column, and 0 to 0.1 for DPO. The search of rule book 002 runs from 1e-6 to 1e-3, below that range.

    Both kinds of pretraining make one pass over text and take 0.1, as GPT-3 and LLaMA do. moshi-finetune, the reference
    that rule book 000 names, has 0.1 as well.

    AdamW multiplies the decay by the learning rate. The rate of Lion is 3 to 10 times lower than AdamW's, so its decay
    is as much higher (section 5 of its paper). SGD takes 0, as LOMO does: PyTorch's SGD adds a decay to a copy of all
    gradients, 4 bytes per parameter, and SGD is chosen to save memory.
    """
    return decay_for(optimizer, choose(method_of(stage).weight_decay, "", 0, 0))


@rule(
    "OPT-004",
    decides="max_grad_norm",
    key="train.max_grad_norm",
    watch="grad_norm: no spikes above 5 times its usual value; if there are, lower `train.learning_rate`",
    source="docs/rule-books/001.md, Key hyperparameters; Step 4; Anti-pattern 5; Dashboard; docs/rule-books/002.md, "
    "Step 2; Step 6 (against: no clipping)",
)
def max_grad_norm() -> Choice:
    """Norm at which gradients are clipped: 1.0.

    Every column of rule book 001 says 1.0, its remedy against instability is to clip at 1.0, and the DeepSpeed
    configuration of rule book 002 has 1.0. Its loop for mixed precision does not clip. A lower limit is accepted. A
    higher limit hardly clips and is reported.
    """
    return Choice(1.0, "the usual limit, which clips spikes and little else", accepts=(0.1, 1.0))


@rule(
    "OPT-005",
    decides="adam_beta2",
    defaults="adam_beta2",
    watch="loss, grad_norm: no spikes; if there are, lower `train.learning_rate`",
    source="docs/rule-books/002.md, Step 2; docs/rule-books/001.md, Step 4 (no betas); GPT-3 (arXiv 2005.14165, 2020, "
    "appendix B); LLaMA (arXiv 2302.13971, 2023); Lion (arXiv 2302.06675, 2023); github.com/ServiceNow/Fast-LLM, "
    "docs/recipes/continue-training.md (commit 44facac)",
)
def adam_beta2(stage: str, adaptation: str, optimizer: str = "adamw") -> Choice:
    """Adam beta2: 0.999; 0.95 for pretraining and for continued pretraining of every weight; 0.99 for Lion.

    Rule book 002 writes the betas 0.9 and 0.999, which are PyTorch's defaults. Rule book 001 names AdamW and no betas.
    From random weights gradients shrink fast, and 0.999 averages the large ones over a thousand steps. GPT-3 and LLaMA
    trained with 0.95. Continued pretraining of every weight goes on with the same weights and the same loss, and keeps
    that beta: the recipe of Fast-LLM for Llama 3.1 8B and Qwen 2.5 7B is one of pretraining, with 0.95. For adapters no
    source was found, so they keep 0.999. The first beta is always 0.9.

    The Trainer gives both betas to Lion too, whose own are 0.9 and 0.99. Adafactor and SGD have none. No key sets the
    betas.
    """
    if optimizer in LION:
        return Choice(0.99, "default of Lion, which averages gradients over about 100 steps")
    return choose(method_of(stage).adam_beta2, adaptation, 0, 0)
