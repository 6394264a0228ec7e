"""SimPO: answers are compared by their mean log-probability per token, with a margin between them."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import OF_DPO_ALONE, Method, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters (column of DPO)"
_PAPER = "SimPO (arXiv 2405.14734, 2024)"
_TIPS = "github.com/princeton-nlp/SimPO/blob/005072f/README.md (hyperparameter tuning)"
_RUN = "github.com/princeton-nlp/SimPO/blob/15c4ff8/training_configs/llama-3-8b-instruct-simpo.yaml (2024)"
_RANKS = "github.com/princeton-nlp/SimPO/blob/4b96360/accelerate_configs/deepspeed_zero3.yaml (4 processes)"
_TRL = "TRL 1.16 experimental/cpo/cpo_config.py"
_CHOICE = "recipec's choice"

SIMPO = Method(
    name="simpo",
    title="simple preference optimization (SimPO)",
    learns="to prefer the chosen answer over the rejected one per token, whatever their lengths, without a reference",
    full_name="full fine-tuning",
    example="pair",
    elsewhere=("simpo",),
    source=f"{_PAPER}; TRL 1.16 trainer/dpo_trainer.py and experimental/cpo/cpo_trainer.py",
    task="align",
    alignment="simpo",
    means="simple preference optimization: length-normalized comparison of two answers with a margin, no reference "
    "model",
    section="preferences",
    formats=("preference",),
    kinds=("pairs",),
    after=("sft",),
    module="trl",
    trainer="DPOTrainer",
    config="DPOConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="",
    judge="",
    passes=(Pass(model="policy", sequences=2, gradient=True, gives="tokens"),),
    loss="margin",
    loss_outputs=("log_probs", "entropy", "mean_logits", "is_top1"),
    block_tokens=None,
    packs="never",
    packs_because="DPOTrainer, on which it is built, cannot pack preference pairs",
    unread={},
    truncates=True,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="DPOTrainer, on which it is built, cannot group pairs by length",
    unread_arguments=OF_DPO_ALONE,
    precomputes="",
    drops_dropout=True,
    keeps_recomputation=True,
    cached_bytes=8,
    copied_bytes=0,
    repeats="drops pairs whose prompt fills `max_length`",
    adaptations=("lora", "qlora", "lora-int8", "ia3", "bottleneck", "full"),
    adaptations_because=WITHOUT_PROMPTS,
    preferred=(),
    preferred_because="",
    learning_rate=(
        Default(
            5e-6,
            "larger than with all weights, because an adapter needs it, and half of what made models repeat themselves",
            f"{_CHOICE}; {_TIPS}",
            (1e-6, 1e-5),
            adaptations=("lora", "qlora"),
        ),
        Default(
            1e-6,
            "highest rate that the authors advise to try; 1e-5 made models repeat themselves",
            f"{_TIPS}; {_RUN}",
            (3e-7, 1e-6),
            adaptations=("full",),
        ),
    ),
    warmup=(Default(0.1, "share of the authors' runs", _RUN, (0.03, 0.15)),),
    epochs=(
        Default(3, "fewer than 1,000 pairs give few steps per pass", _TABLE, accepts=(1, 3), sizes=("<1K",)),
        Default(2, "usual number of passes over 1,000 to 10,000 pairs", _TABLE, accepts=(1, 3), sizes=("1K-10K",)),
        Default(
            1, "10,000 pairs or more give enough steps in the one pass of the authors", f"{_TABLE}; {_RUN}", (1, 3)
        ),
    ),
    global_batch=(
        Default(
            32,
            "common number of pairs per step for preferences; fewer than 10,000 give few steps with more",
            _TABLE,
            accepts=(16, 128),
            sizes=("<1K", "1K-10K"),
        ),
        Default(
            128,
            "pairs per step of the authors' runs: 2 on each of 4 GPUs, accumulated over 16 passes",
            f"{_RUN}; {_RANKS}",
            accepts=(32, 256),
        ),
    ),
    weight_decay=(Default(0.0, "the authors' runs set none", _RUN, accepts=(0.0, 0.1)),),
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
            "more than 100,000 pairs can use more capacity than the usual rank of 16",
            _TABLE,
            (16, 64),
            sizes=(">100K",),
        ),
        Default(16, "usual start; harder tasks need more", _TABLE, accepts=(16, 64)),
    ),
    lora_alpha_most=64,
    lora_dropout=(
        Default(
            0.0,
            "SimPO compares two answers in one pass, and dropout noise would count as a preference",
            f"{_TRL} (disable_dropout)",
        ),
    ),
    own=(
        Own(
            id="SIMPO-001",
            name="simpo_beta",
            key="beta",
            argument="beta",
            of_trainer=False,
            elsewhere={"axolotl": ("rl_beta",), "llama_factory": ("pref_beta",)},
            title="Beta",
            description="Weight of the difference between the log-probabilities of the two answers.",
            formula="",
            value=2.0,
            because="means over tokens differ little, so the authors take a much larger beta than that of DPO",
            source=f"{_TIPS}; {_PAPER}",
            accepts=(2.0, 10.0),
            above=0,
            closed=False,
            whole=False,
            most=10,
            values=None,
            changes={},
            watch="rewards/margins, rewards/accuracies: both rise; if margins grow and accuracies do not, lower "
            "`alignment.beta`",
            page="SimPO beta: how much a difference between the two answers counts.\n\n"
            "It is 2. A pair costs -log(sigmoid(beta * (chosen - rejected) - gamma)), where both are the mean "
            "log-probability of an answer's tokens, so that length alone decides nothing. A mean is far smaller than "
            "the sum that DPO and CPO compare. The authors used 2 and 2.5, and found up to 10 better in places. There "
            "is no reference model, so beta holds nothing near the start. Where beta is raised, raise gamma with it.",
        ),
        Own(
            id="SIMPO-002",
            name="simpo_gamma",
            key="gamma",
            argument="gamma",
            of_trainer=True,
            elsewhere=dict.fromkeys(("trl", "axolotl", "llama_factory"), ("simpo_gamma",)),
            title="Gamma",
            description="The target margin: by how much beta times the mean log-probability of the chosen answer is to "
            "exceed that of the rejected one.",
            formula="",
            value=1.0,
            because="half of a beta of 2, where the authors advise to start",
            source=f"{_TIPS}; {_PAPER}",
            accepts=None,
            above=0,
            closed=True,
            whole=False,
            most=10,
            values=None,
            changes={},
            watch="rewards/margins: rise above gamma; if they stay far below it, lower `alignment.gamma`",
            page="SimPO gamma: the margin by which the chosen answer is to win.\n\n"
            "It is 1, half of a beta of 2. The authors tune gamma as a share of beta: start at 0.5 of it, and try 0 to "
            "1. Their configurations name that share, `gamma_beta_ratio`; here it is gamma itself, as in the paper. "
            "With another beta, set both.",
        ),
    ),
    acts=(),
    acts_metrics=(),
    metrics=(
        *("rewards/margins", "rewards/accuracies", "rewards/chosen", "rewards/rejected"),
        *("logps/chosen", "logps/rejected"),
    ),
    proof=("loss_halves", "margins_rise"),
)
