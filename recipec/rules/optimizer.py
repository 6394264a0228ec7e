"""How far a step goes: learning rate, optimizer, weight decay, clipping."""

from __future__ import annotations

from recipec.axes import ADAPTATIONS
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import choose, method_of
from recipec.rules.optimizers import LION, decay_for, rate_for


@rule(
    "OPT-001",
    decides="learning_rate",
    key="train.learning_rate",
    defaults="learning_rate",
    watch="loss, grad_norm: loss falls from the end of warmup on; NaN: halve it; flat after 100 steps: sweep it",
    source="rule book 001, Key Hyperparameter Rules (Learning rate), Step 1, Data size, Rules; 003, Learning rate & "
    "schedule, LR ranges; GPT-3 (arXiv 2005.14165, 2020), LLaMA (2302.13971, 2023), Llama 3 (2407.21783, 2024); "
    "Lion (2302.06675, 2023), Adafactor (1804.04235, 2018), LOMO (2306.09782, 2023)",
)
def learning_rate(stage: str, adaptation: str, examples: int, params: int, optimizer: str = "adamw") -> Choice:
    """Decides the peak learning rate by stage, adaptation, the amount of data and the optimizer.

    Full: 001's rules say 5e-5 to 2e-5, its table 1e-5 to 5e-5, 003 starts at 5e-5 and ranges to 1e-4. 2e-5 lies in
    the first two; 003's start is the top of 001's range, and its 1e-4 is warned about. LoRA: 001's rules say "1e-4 to
    5e-5", against its own table and 003: the table wins. 001's remedy for forgetting, 1e-5 for LoRA, is outside it and
    is warned about with this reason. Pretraining: 001's 1e-4 to 3e-4 says nothing of the size of the model; the
    published runs do, and both ends of theirs leave its range.

    The table is AdamW's, in 8 bits too. Lion steps by the sign of its moment, the whole rate for every parameter: a
    tenth of AdamW's rate; a tenth to a third of the range is accepted. Adafactor clips its steps to a root mean square
    of 1 and does not average them: AdamW's rates for it are our decision. SGD's steps are as long as the gradient:
    0.03, from 1e-3 to 0.1, after the configuration published with LOMO, which is SGD for 7B. No source gives a rate for
    adapters or for preferences.
    """
    return rate_for(optimizer, choose(method_of(stage).learning_rate, adaptation, examples, params))


@rule(
    "OPT-002",
    decides="optimizer",
    key="train.optimizer",
    watch="loss, peak_memory_gib: the loss of another optimizer follows that of an AdamW run; memory matches the plan",
    source="rule book 001, Step 4 (adamw_torch); 000, Mixed Precision (fp32 master weights); QLoRA (arXiv 2305.14314, "
    "2023), Adafactor (1804.04235, 2018), Lion (2302.06675, 2023), LOMO (2306.09782, 2023)",
)
def optimizer(adaptation: str, priority: str | None, gpu_is_cpu: bool) -> Choice:
    """Decides the optimizer: AdamW, with 8-bit states where memory comes first and every weight is trained.

    001 uses AdamW. Its two fp32 moments are 8 bytes per trained parameter: nothing for an adapter, half of all memory
    for full fine-tuning. There, if the recipe puts memory first, bitsandbytes keeps them in about 2 bytes. It does not
    run under FSDP or with ZeRO offload (pages BAD-004, BAD-005), so the planner may fall back to AdamW.
    The QLoRA paper pages its optimizer states (arXiv 2305.14314, section 3). That helps against spikes of memory, which
    the planner leaves room for; the states of an adapter themselves are too small to page.

    What a recipe may choose instead, in bytes of states per trained parameter beside weights and gradients:

    | | bytes | sensible when |
    |---|---|---|
    | adamw | 8 | always, where it fits |
    | adamw-8bit | 2 | all weights are trained and memory is short |
    | paged-adamw, paged-adamw-8bit | 8 or 2, on the host if need be | memory is short in some steps only |
    | adafactor | under 0.01 | all weights are trained and the states do not fit; T5 (1910.10683) was trained with it |
    | lion, lion-8bit | 4 or 1 | batches are large; its paper sees larger gains with larger ones |
    | sgd | 0 | nothing else fits: AdaLomo (2310.10195) finds it worse than AdamW, and its rate takes a sweep |

    Adafactor keeps row and column means of the squared gradients and no first moment, as Trainer makes it; its step
    needs twice the largest matrix in fp32. SGD is without momentum. What runs with which sharding: BAD-004, BAD-005,
    BAD-030. Of the other names of transformers, AdEMAMix, RMSprop and Adagrad are not offered; GaLore, APOLLO, LOMO,
    GrokAdamW, schedule-free, torchao and StableAdamW need packages that are not in the pinned stack.
    """
    if not ADAPTATIONS[adaptation].trains_all:
        return Choice("adamw", "an adapter is about 1% of the parameters, so its moments are too small to save on")
    if priority == "memory" and not gpu_is_cpu:
        return Choice("adamw-8bit", "the recipe puts memory first, and 8-bit moments take 2 bytes per parameter, not 8")
    return Choice("adamw", "the usual optimizer; its fp32 moments take 8 bytes per parameter")


@rule(
    "OPT-003",
    decides="weight_decay",
    key="train.weight_decay",
    defaults="weight_decay",
    watch="train_eval_gap: a widening gap asks for more, towards the end of the accepted range",
    source="rule book 001, Key Hyperparameter Rules (Weight decay), Step 4, Anti-Pattern 1; 000, LoRA Configuration",
)
def weight_decay(stage: str, optimizer: str = "adamw") -> Choice:
    """Decides the weight decay: 0.01, and 0.1 for pretraining and continued pretraining; 10 times that for Lion.

    001 starts at 0.01 and goes to 0.1 against overfitting; its range is 0.01-0.1 in every column, 0.0-0.1 for DPO.
    Both kinds of pretraining train all weights on one pass over text, where 0.1 is the habit: GPT-3 and LLaMA have it.
    What decays is the product of decay and learning rate. Lion's rate is 3 to 10 times lower than AdamW's, so its decay
    is as much higher (arXiv 2302.06675, section 5). For SGD it is 0, as in LOMO: PyTorch's SGD adds a decay to a copy
    of all gradients, 4 bytes per parameter, and SGD is chosen to save memory.
    """
    return decay_for(optimizer, choose(method_of(stage).weight_decay, "", 0, 0))


@rule(
    "OPT-004",
    decides="max_grad_norm",
    key="train.max_grad_norm",
    watch="grad_norm: stays within 5 times its usual value; spikes are instability",
    source="rule book 001, Key Hyperparameter Rules (Gradient clipping), Anti-Pattern 5, Dashboard (Gradient Norm)",
)
def max_grad_norm() -> Choice:
    """Decides the norm at which gradients are clipped: 1.0.

    Every column of 001's table says 1.0, and its remedy against instability is to clip at 1.0. A tighter limit is
    accepted; a looser one hardly clips and is warned about.
    """
    return Choice(1.0, "the usual limit, which clips spikes and nothing else", accepts=(0.1, 1.0))


@rule(
    "OPT-005",
    decides="adam_beta2",
    defaults="adam_beta2",
    watch="loss, grad_norm: spikes of the loss in pretraining ask for a beta2 that forgets sooner",
    source="rule book 001, Step 4 (adamw_torch); GPT-3 (arXiv 2005.14165, appendix B, 2020), LLaMA (2302.13971, 2023); "
    "Lion (2302.06675, 2023)",
)
def adam_beta2(stage: str, optimizer: str = "adamw") -> Choice:
    """Decides how long AdamW remembers squared gradients: 0.999, and 0.95 for pretraining. Lion's moment: 0.99.

    001 names AdamW and no betas; 0.999 is PyTorch's own. From random weights gradients shrink fast, and with 0.999
    the large ones are remembered for a thousand steps; GPT-3 and LLaMA trained with 0.95. The first beta stays 0.9.
    Trainer hands the same two to Lion, whose own are 0.9 and 0.99. Adafactor and SGD have none.
    """
    if optimizer in LION:
        return Choice(0.99, "the default of Lion: a memory of about 100 steps")
    return choose(method_of(stage).adam_beta2, "", 0, 0)
