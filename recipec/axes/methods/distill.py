"""Supervised distillation: on given answers the student learns the teacher's probabilities of every next token."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import Method, Pass

_GKD = "GKD (arXiv 2306.13649, 2023)"
_MINILLM = "MiniLLM (arXiv 2306.08543, 2023)"
_WORD_LEVEL = "word-level baselines of MiniLLM (github.com/microsoft/LMOps, minillm/scripts/*/kd)"
_TABLE = "docs/rule-books/001.md, Key hyperparameters"
_SIZES = "docs/rule-books/001.md, Decision tree: data size for instruction tuning"
# No source gives these values for distillation: the rows are those of supervised fine-tuning, and so are the values.
_OURS = "recipec's choice, as for supervised fine-tuning"

DISTILL = Method(
    name="distill",
    title="supervised distillation",
    learns="the teacher's probabilities of every token of the answers, not of the questions",
    full_name="full fine-tuning",
    example="sequence",
    elsewhere=("distillation", "kd"),
    source=f"{_GKD}, supervised KD; TRL 1.16 trainer/sft_trainer.py and kernels/chunked_divergence.py",
    task="distill",
    alignment="",
    means="supervised distillation: match a larger model's token probabilities on given answers",
    section="train",
    formats=("chat", "instruction", "prompt-completion"),
    kinds=("chat", "completion"),
    after=(),
    module="trl",
    trainer="SFTTrainer",
    config="SFTConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="",
    judge="",
    passes=(
        Pass(model="teacher", sequences=1, gradient=False, gives="tokens"),
        Pass(model="policy", sequences=1, gradient=True, gives="tokens"),
    ),
    loss="divergence",
    loss_outputs=("log_probs", "entropy", "is_top1"),
    block_tokens=None,
    packs="examples",
    packs_because="",
    unread={},
    truncates=True,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="similar-lengths",
    sampling_because="micro batches of similar length need little padding; their order is random, the longest is first",
    unread_arguments=("loss_type",),
    precomputes="",
    drops_dropout=False,
    keeps_recomputation=True,
    cached_bytes=49,
    copied_bytes=0,
    repeats="",
    adaptations=("lora", "qlora", "lora-int8", "ia3", "bottleneck", "full"),
    adaptations_because=WITHOUT_PROMPTS,
    preferred=("full", "lora", "qlora"),
    preferred_because="a student is small, and where distillation is published all of its weights are trained",
    learning_rate=(
        Default(
            2e-4,
            "usual start for LoRA training on answers",
            f"{_OURS}; {_TABLE}; Step 4",
            accepts=(1e-4, 5e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(
            2e-5,
            "default of GKDTrainer; published students of more than 1B parameters learn at 1e-5 to 5e-5",
            f"TRL 1.16 experimental/gkd/gkd_config.py, trainer/sft_config.py; {_WORD_LEVEL}",
            accepts=(1e-5, 5e-5),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(
            0.1,
            "fewer than 1,000 rows give a few dozen steps, and a smaller share would be one or two of them",
            f"{_OURS}; {_TABLE} (upper end)",
            accepts=(0.03, 0.1),
            sizes=("<1K",),
        ),
        Default(0.03, "usual share for fine-tuning", f"{_OURS}; {_TABLE}; Step 4", accepts=(0.03, 0.1)),
    ),
    epochs=(
        Default(
            5,
            "fewer than 1,000 rows give few steps per pass",
            f"{_OURS}; {_SIZES}",
            (1, 9),
            adaptations=("lora", "qlora"),
            sizes=("<1K",),
        ),
        Default(
            3,
            "fewer than 1,000 rows, which full fine-tuning memorizes sooner than an adapter",
            f"{_OURS}; {_SIZES}",
            (1, 9),
            sizes=("<1K",),
        ),
        Default(3, "usual number of passes over 1,000 to 10,000 rows", f"{_OURS}; {_SIZES}", (1, 5), sizes=("1K-10K",)),
        Default(
            2, "usual number of passes over 10,000 to 100,000 rows", f"{_OURS}; {_SIZES}", (1, 5), sizes=("10K-100K",)
        ),
        Default(1, "one pass over more than 100,000 rows is usual", f"{_OURS}; {_SIZES}", (1, 3), sizes=(">100K",)),
    ),
    global_batch=(
        Default(
            64,
            "common global batch for full fine-tuning, and that of most published word-level baselines",
            f"{_OURS}; {_TABLE}; {_WORD_LEVEL}",
            accepts=(32, 512),
            adaptations=("full",),
        ),
        Default(32, "common global batch for LoRA training on answers", f"{_OURS}; {_TABLE}", accepts=(16, 128)),
    ),
    weight_decay=(Default(0.01, "usual start for fine-tuning", f"{_OURS}; {_TABLE}; Step 4", accepts=(0.01, 0.1)),),
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
            "more than 100,000 rows can use more capacity than the usual rank of 16",
            f"{_OURS}; {_TABLE}",
            (8, 64),
            sizes=(">100K",),
        ),
        Default(16, "usual start; harder tasks need more", f"{_OURS}; {_TABLE}; Step 3", (8, 64)),
    ),
    lora_alpha_most=128,
    lora_dropout=(
        Default(
            0.1,
            "fewer than 1,000 rows are repeated for several epochs and overfit sooner",
            f"{_OURS}; docs/rule-books/001.md, Anti-pattern 1 (0.05 to 0.2)",
            (0.0, 0.3),
            sizes=("<1K",),
        ),
        Default(
            0.05,
            "usual start against overfitting",
            f"{_OURS}; docs/rule-books/001.md, Step 3; Anti-pattern 1",
            (0.0, 0.3),
        ),
    ),
    own=(
        Own(
            id="KD-001",
            name="kd_beta",
            key="beta",
            argument="beta",
            of_trainer=True,
            elsewhere={"trl": ("beta",), "axolotl": ("kd_beta",)},
            title="Beta",
            description="Which divergence from the teacher is learned: 0 the forward KL, 1 the reverse KL, between "
            "them their generalized Jensen-Shannon divergence.",
            formula="",
            value=0.0,
            because="forward KL, the usual choice for given answers: the student learns all that the teacher would say",
            source=f"{_GKD}, supervised KD; {_WORD_LEVEL}",
            accepts=(0.0, 1.0),
            above=0,
            closed=True,
            whole=False,
            most=1,
            values=None,
            changes={},
            watch="loss, entropy: the loss falls; if entropy falls to almost nothing under a beta near 1, lower "
            "`alignment.beta`",
            page="Beta of distillation: which divergence from the teacher's probabilities is learned.\n\n"
            "| beta | divergence | the student |\n|---|---|---|\n"
            "| 0 | forward KL | covers all that the teacher finds likely |\n"
            "| between | generalized Jensen-Shannon, which weighs the teacher by beta | something between |\n"
            "| 1 | reverse KL | keeps to what the teacher finds likeliest |\n\n"
            "It is 0. GKD's supervised KD is the forward KL; DistilBERT (arXiv 1910.01108) and Gemma 2 (arXiv "
            "2408.00118) minimize the cross entropy with the teacher's probabilities, which differs from it by a "
            "constant. MiniLLM (arXiv 2306.08543) argues for the reverse KL where the student cannot cover all, on "
            "answers that the student writes itself. Near 0 and 1 the generalized divergence is small by itself, about "
            "beta times the forward KL, so 0.1 learns more slowly than 0.",
        ),
        Own(
            id="KD-002",
            name="kd_temperature",
            key="temperature",
            argument="temperature",
            of_trainer=True,
            elsewhere={"trl": ("temperature",), "axolotl": ("kd_temperature",)},
            title="Temperature",
            description="Temperature of both models: values above 1 give unlikely tokens more weight.",
            formula="",
            value=1.0,
            because="the probabilities as the teacher gives them, neither softened nor sharpened",
            source="TRL 1.16 trainer/distillation_config.py",
            accepts=(0.5, 4.0),
            above=0,
            closed=False,
            whole=False,
            most=20,
            values=None,
            changes={},
            watch="loss, mean_token_accuracy: the loss falls and the accuracy does not; if the accuracy falls, set "
            "`alignment.temperature = 1`",
            page="Temperature of distillation: what the logits of both models are divided by.\n\n"
            "It is 1, as in TRL's trainers. Hinton et al. (arXiv 1503.02531) soften both distributions, so that the "
            "small probabilities of wrong answers teach too, and multiply the loss by the square of the temperature, "
            "which keeps its gradient in proportion; so does the bundle. Their models choose between a few classes. A "
            "language model's probabilities already spread over many tokens.",
        ),
        Own(
            id="KD-003",
            name="label_weight",
            key="label_weight",
            argument="label_weight",
            of_trainer=True,
            elsewhere={"axolotl": ("kd_ce_alpha",)},
            title="Label weight",
            description="The share of the loss that is the cross entropy of the given answer, as in supervised "
            "fine-tuning.",
            formula="",
            value=0.0,
            because="where the teacher wrote the answers, its probabilities say all that the answers do",
            source=f"{_GKD}, supervised KD",
            accepts=(0.0, 0.5),
            above=0,
            closed=True,
            whole=False,
            most=0.9,
            values=None,
            changes={},
            watch="mean_token_accuracy: rises; it says how often the likeliest token is that of the given answer",
            page="Label weight of distillation: the share of the loss that is that of supervised fine-tuning on the "
            "given answers.\n\n"
            f"It is 0, as in GKD's supervised KD. The word-level baselines of {_MINILLM} take 0.5, and DistilBERT "
            "(arXiv 1910.01108) adds its training loss. Answers that people wrote, and that are better than the "
            "teacher's, are a reason for some.",
        ),
    ),
    acts=(),
    acts_metrics=(),
    metrics=("mean_token_accuracy", "eval_mean_token_accuracy", "entropy"),
    proof=("divergence_falls",),
)
