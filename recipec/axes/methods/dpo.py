"""Direct preference optimization."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import Method, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters (column of DPO)"
_PAPER = "DPO (arXiv 2305.18290, 2023)"
WRONG_LABELS = {"robust": 0.1}  # loss -> the share of labels that it expects to be wrong; our decision

DPO = Method(
    name="dpo",
    title="direct preference optimization",
    learns="to prefer the chosen answer over the rejected one, close to the model it starts from",
    full_name="full fine-tuning",
    example="pair",
    elsewhere=("dpo", "preference", "rlhf"),
    source=f"{_PAPER}; TRL 1.16 trainer/dpo_trainer.py",
    task="align",
    alignment="dpo",
    means="direct preference optimization",
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
    passes=(
        Pass(model="policy", sequences=2, gradient=True, gives="tokens"),
        Pass(model="reference", sequences=2, gradient=False, gives="tokens"),
    ),
    loss="pairs",
    loss_outputs=("log_probs", "entropy", "mean_logits", "is_top1"),
    block_tokens=None,
    packs="never",
    packs_because="DPOTrainer cannot pack preference pairs",
    unread={},
    truncates=True,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="DPOTrainer cannot group pairs by length",
    unread_arguments=(),
    precomputes="precompute_ref_log_probs",
    drops_dropout=True,
    keeps_recomputation=False,
    cached_bytes=8,
    copied_bytes=0,
    repeats="drops pairs whose prompt fills `max_length`",
    adaptations=("lora", "qlora", "lora-int8", "ia3", "bottleneck", "full"),
    adaptations_because=WITHOUT_PROMPTS,
    preferred=("lora", "qlora", "full"),
    preferred_because="without its adapter the model is the reference, so LoRA needs no second copy of the weights",
    learning_rate=(
        Default(
            5e-6,
            "upper end of the usual range for DPO, because an adapter needs a larger rate than full fine-tuning",
            _TABLE,
            (5e-7, 5e-6),
            adaptations=("lora", "qlora"),
        ),
        Default(
            5e-7,
            "low end of the usual range for DPO, because full fine-tuning moves away from the reference fast",
            f"{_TABLE}; {_PAPER}",
            (5e-7, 5e-6),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(0.1, "middle of the usual range for DPO, whose runs have few steps", _TABLE, accepts=(0.05, 0.15)),
    ),
    epochs=(
        Default(3, "fewer than 1,000 pairs give few steps per pass", _TABLE, accepts=(1, 3), sizes=("<1K",)),
        Default(2, "usual number of passes over 1,000 to 10,000 pairs", _TABLE, accepts=(1, 3), sizes=("1K-10K",)),
        Default(
            1, "10,000 pairs or more give enough steps in one pass, and DPO overfits early", _TABLE, accepts=(1, 3)
        ),
    ),
    global_batch=(Default(32, "common number of pairs per step for DPO", _TABLE, accepts=(16, 64)),),
    weight_decay=(Default(0.01, "usual start for fine-tuning", _TABLE, accepts=(0.0, 0.1)),),
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
            "DPO compares the policy with its reference, and dropout noise would count as a preference",
            "TRL 1.16 trainer/dpo_config.py (disable_dropout)",
        ),
    ),
    own=(
        Own(
            id="DPO-001",
            name="beta",
            key="beta",
            argument="beta",
            of_trainer=False,
            elsewhere={"axolotl": ("rl_beta",), "llama_factory": ("pref_beta",), "typed": ("dpo_beta",)},
            title="Beta",
            description="Strength of the constraint that keeps the model close to the reference model.",
            formula="",
            value=0.1,
            because="usual start; a larger beta keeps the policy closer to the reference",
            source=f"docs/rule-books/001.md, Anti-pattern 7; {_PAPER}",
            accepts=(0.1, 0.5),
            above=0,
            closed=False,
            whole=False,
            most=10,
            values=None,
            changes={},
            watch="rewards/margins, rewards/chosen: margins rise; if chosen rewards fall far below 0, raise "
            "`alignment.beta`",
            page="DPO beta: how strongly the model is kept close to the reference model.\n\n"
            "It is 0.1. Rule book 001 starts at 0.1 and raises beta to 0.5 against overfitting; recipec accepts that "
            "range without a warning. A smaller beta lets the policy move further away from the reference.",
        ),
        Own(
            id="DPO-002",
            name="dpo_loss",
            key="loss",
            argument="loss_type",
            of_trainer=False,
            elsewhere={"trl": ("loss_type",), "axolotl": ("dpo_loss_type",), "llama_factory": ("pref_loss",)},
            title="Loss",
            description="Form of the preference loss, named as in TRL.",
            formula="",
            value="sigmoid",
            because="the loss of the original DPO paper; its curve starts at ln 2 = 0.693",
            source=f"docs/rule-books/001.md, Step 1 (DPO); {_PAPER}",
            accepts=None,
            above=None,
            closed=False,
            whole=False,
            most=None,
            values={
                "sigmoid": "the loss of the DPO paper",
                "ipo": "squared distance to a margin; overfits less to clear preferences",
                "hinge": "hinge loss, 0 once the margin is reached",
                "robust": "DPO for data with some wrong labels: it expects a tenth of them (`label_smoothing=0.1`)",
            },
            changes={},
            watch="loss, rewards/accuracies: the loss starts at ln 2 = 0.693 (hinge: 1, ipo: 1/(2 beta)^2) and falls; "
            "accuracies rise from 0.5",
            page="DPO loss: the form of the preference loss.\n\n"
            "It is sigmoid, the form of the DPO paper. Rule book 001 names DPO without a variant. The DPOTrainer "
            "of the pinned TRL has fifteen. The curve of the original starts at ln 2, so a wrong start is easy to see. "
            "Robust DPO (arXiv 2403.00409, 2024) takes the share of pairs whose labels are the wrong way round, which "
            "recipec sets to 0.1; TRL's own default of 0 would make it the loss of the DPO paper.",
        ),
    ),
    acts=(),
    acts_metrics=(),
    metrics=("rewards/margins", "rewards/accuracies", "rewards/chosen", "logps/chosen", "entropy"),
    proof=("starts_as_reference", "loss_halves", "margins_rise"),
)
