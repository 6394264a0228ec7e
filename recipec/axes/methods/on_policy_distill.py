"""On-policy distillation: on answers that the student writes it learns the teacher's probabilities of every token."""

from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import Method, Pass

_GKD = "GKD (arXiv 2306.13649, 2023)"
_MINILLM = "MiniLLM (arXiv 2306.08543, 2023)"
_POST = "On-Policy Distillation (thinkingmachines.ai/blog/on-policy-distillation, 2025)"
_COOKBOOK = "github.com/thinking-machines-lab/tinker-cookbook, recipes/distillation/README.md"
_TRL = "TRL 1.16 trainer/distillation_config.py"
_CHOICE = "recipec's choice"

BETA = Own(
    id="KD-004",
    name="divergence_beta",
    key="beta",
    argument="beta",
    of_trainer=False,
    elsewhere={"trl": ("beta",)},
    title="Beta",
    description="Which divergence from the teacher is learned: 0 the forward KL, 1 the reverse KL, between them their "
    "generalized Jensen-Shannon divergence.",
    formula="",
    value=1.0,
    because="reverse KL, the usual choice: the student stops saying what the teacher would not say",
    source=f"{_TRL} (beta); {_POST}; {_MINILLM}",
    accepts=(0.0, 1.0),
    above=0,
    closed=True,
    whole=False,
    most=1,
    values=None,
    changes={},
    watch="loss, entropy: the loss falls; if entropy falls to almost nothing, lower `alignment.beta`",
    page="Beta of on-policy distillation: which divergence from the teacher's probabilities is learned.\n\n"
    "| beta | divergence | the student |\n|---|---|---|\n"
    "| 0 | forward KL | covers all that the teacher finds likely |\n"
    "| between | generalized Jensen-Shannon, which weighs the teacher by beta | something between |\n"
    "| 1 | reverse KL | keeps to what the teacher finds likeliest |\n\n"
    "It is 1, as in TRL, in MiniLLM and in Thinking Machines' post. The whole distributions of both models are "
    "compared at every token, so the reverse KL of a token is exact; it is not estimated from the token that was "
    "drawn. GKD finds that the best divergence depends on the task, and compares 0, 0.1, 0.5, 0.9 and 1. Near 0 and 1 "
    "the generalized divergence is small by itself, about beta (or 1 - beta) times the KL at that end, so 0.9 learns "
    "more slowly than 1.",
)
MAX_NEW_TOKENS = Own(
    id="KD-005",
    name="max_new_tokens",
    key="generation.max_new_tokens",
    argument="max_completion_length",
    of_trainer=False,
    elsewhere={"trl": ("max_new_tokens", "max_completion_length")},
    title="Maximum answer length",
    description="Maximum number of tokens per generated answer during training.",
    formula="",
    value=512,
    because="enough for an answer with a few steps of reasoning; a model that thinks before it answers needs more, or "
    '`data.reasoning = "off"`',
    source=f"{_TRL} (max_completion_length)",
    accepts=None,
    above=8,
    closed=True,
    whole=True,
    most=131_072,
    values=None,
    changes={},
    watch="completions/clipped_ratio, completions/mean_length: few answers are cut; if most are, raise "
    "`alignment.generation.max_new_tokens`",
    page="Longest answer of on-policy distillation: how many tokens an answer of the student has at most.\n\n"
    "It is 512, TRL's default, which assumes an answer without a long thought. A model whose chat template has a mode "
    'for thinking (Qwen3) writes thousands of tokens first: allow that many, or set `data.reasoning = "off"`, with '
    "which prompts end with an empty thought. W0525 tells where neither is set.\n\n"
    "The teacher says of every token what it would have said, so an answer that is cut still teaches what is there. "
    "How answers end is learned only from those that do. Answers are written together, and all wait for the longest. "
    "Keys and values of every answer of a global batch are in memory at once.",
)
TEMPERATURE = Own(
    id="KD-006",
    name="temperature",
    key="generation.temperature",
    argument="temperature",
    of_trainer=False,
    elsewhere={},
    title="Temperature",
    description="Temperature at which answers are drawn and both models' probabilities are compared.",
    formula="",
    value=1.0,
    because="answers are drawn from the probabilities that are compared; top-p, top-k and penalties are off for that, "
    "too",
    source=f"{_TRL} (temperature)",
    accepts=(0.7, 1.2),
    above=0,
    closed=False,
    whole=False,
    most=2,
    values=None,
    changes={},
    watch="entropy, loss: the loss falls and entropy stays above 0; if answers become all alike, raise "
    "`alignment.generation.temperature`",
    page="Temperature of on-policy distillation: what the logits are divided by.\n\n"
    "It is 1. TRL's DistillationTrainer divides by it where answers are drawn and, for both models, where they are "
    "compared. Its GKDTrainer draws at 0.9 by default and compares at 1, whatever the value. Another temperature "
    "changes what is learned: the student's softened probabilities then approach the teacher's softened ones.",
)

ON_POLICY_DISTILL = Method(
    name="on-policy-distill",
    title="on-policy distillation",
    learns="the teacher's probabilities of every token of the answers that it writes itself",
    full_name="full fine-tuning",
    example="answer",
    elsewhere=("on-policy-distillation", "opd", "gkd"),
    source=f"{_GKD}; {_POST}; TRL 1.16 trainer/distillation_trainer.py and kernels/chunked_divergence.py",
    task="on-policy-distill",
    alignment="",
    means="on-policy distillation: match a larger model's token probabilities on answers that the model writes itself",
    section="prompts",
    formats=("prompts",),
    kinds=("prompts",),
    after=("sft",),
    module="trl",
    trainer="DistillationTrainer",
    config="DistillationConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="transformers",
    judge="",
    passes=(
        Pass(model="policy", sequences=1, gradient=True, gives="tokens"),
        Pass(model="teacher", sequences=1, gradient=False, gives="tokens"),
    ),
    loss="written_divergence",
    loss_outputs=(),
    block_tokens=None,
    packs="never",
    packs_because="answers are written while training, so there is nothing to pack before",
    unread={},
    truncates=False,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="DistillationTrainer takes the prompts in a random order of its own, one answer for each",
    unread_arguments=("train_sampling_strategy",),
    precomputes="",
    drops_dropout=True,
    keeps_recomputation=False,
    cached_bytes=0,
    copied_bytes=0,
    repeats="",
    adaptations=("lora", "qlora", "lora-int8", "ia3", "full"),
    adaptations_because="TRL 1.16 reads the decoder below the adapter (distillation_trainer.py), past virtual tokens",
    preferred=("full", "lora", "qlora"),
    preferred_because="a student is small, and most published students trained all of their weights",
    learning_rate=(
        Default(
            1e-4,
            "rate of Thinking Machines' runs with LoRA",
            _COOKBOOK,
            accepts=(1e-5, 2e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(
            1e-5,
            "between the 1e-6 of TRL's default and the 5e-5 of Thinking Machines' runs that trained all weights",
            f"{_CHOICE}; {_TRL} (learning_rate); {_COOKBOOK}",
            accepts=(1e-6, 5e-5),
            adaptations=("full",),
        ),
    ),
    warmup=(Default(0.03, "a few steps, while answers are furthest from the teacher's", _CHOICE, accepts=(0.0, 0.1)),),
    epochs=(Default(1, "the student's answers to a prompt differ in every pass", _CHOICE, accepts=(1, 20)),),
    global_batch=(
        Default(
            64,
            "every token of an answer teaches, so that a step needs fewer answers than one that learns from rewards",
            f"{_CHOICE}; github.com/thinking-machines-lab/tinker-cookbook, recipes/distillation/"
            "on_policy_distillation.py (1,024 prompts)",
            accepts=(16, 4096),
        ),
    ),
    weight_decay=(Default(0.0, "default of TRL's trainer", f"{_TRL} (weight_decay)", accepts=(0.0, 0.1)),),
    adam_beta2=(
        Default(
            0.999,
            "default of AdamW, which averages squared gradients over about 1,000 steps",
            "docs/rule-books/002.md, Step 2; torch 2.13 optim/adamw.py",
        ),
    ),
    lora_rank=(
        Default(
            32,
            "a teacher says more of each token than a reward says of an answer; Thinking Machines' runs have 128",
            f"{_CHOICE}; {_COOKBOOK}",
            accepts=(8, 128),
        ),
    ),
    lora_alpha_most=256,
    lora_dropout=(
        Default(
            0.0,
            "dropout would stay on while answers are written, which the model then draws from other probabilities",
            f"{_TRL} (disable_dropout)",
        ),
    ),
    own=(BETA, MAX_NEW_TOKENS, TEMPERATURE),
    acts=(),
    acts_metrics=(),
    metrics=("entropy", "completions/clipped_ratio", "completions/mean_length"),
    proof=("divergence_falls",),
)
