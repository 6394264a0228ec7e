"""Odds ratio preference optimization: the answers are learned and compared in one pass, without a reference."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import OF_DPO_ALONE, Method, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters (column of DPO)"
_PAPER = "ORPO (arXiv 2403.07691, 2024)"
_TRL = "TRL 1.16 experimental/orpo/orpo_config.py"
_SCRIPT = "github.com/huggingface/trl/blob/004c867/examples/scripts/orpo.py (2024)"

ORPO = Method(
    name="orpo",
    title="odds ratio preference optimization",
    learns="to write the chosen answer, and to prefer it over the rejected one",
    full_name="full fine-tuning",
    example="pair",
    elsewhere=("orpo", "odds_ratio"),
    source=f"{_PAPER}; TRL 1.16 trainer/dpo_trainer.py and experimental/orpo/orpo_trainer.py",
    task="align",
    alignment="orpo",
    means="odds ratio preference optimization: fine-tuning on the chosen answers and preferences in one loss, no "
    "reference model",
    section="preferences",
    formats=("preference",),
    kinds=("pairs",),
    after=("continue-pretrain",),
    module="trl",
    trainer="DPOTrainer",
    config="DPOConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="",
    judge="",
    passes=(Pass(model="policy", sequences=2, gradient=True, gives="tokens"),),
    loss="odds",
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
            8e-5,
            "ten times the rate of full fine-tuning, because an adapter needs a larger one",
            _SCRIPT,
            (5e-6, 2e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(
            8e-6,
            "between the rates of DPO and of supervised fine-tuning, whose loss is most of this one",
            f"{_SCRIPT}; {_TRL} (learning_rate)",
            (1e-6, 2e-5),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(0.1, "middle of the usual range for preferences, whose runs have few steps", _TABLE, (0.03, 0.15)),
    ),
    epochs=(
        Default(3, "fewer than 1,000 pairs give few steps per pass", _TABLE, accepts=(1, 5), sizes=("<1K",)),
        Default(2, "usual number of passes over 1,000 to 10,000 pairs", _TABLE, accepts=(1, 5), sizes=("1K-10K",)),
        Default(1, "10,000 pairs or more give enough steps in one pass", _TABLE, accepts=(1, 5)),
    ),
    global_batch=(Default(32, "common number of pairs per step for preferences", _TABLE, accepts=(16, 128)),),
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
            "ORPO compares two answers in one pass, and dropout noise would count as a preference",
            f"{_TRL} (disable_dropout)",
        ),
    ),
    own=(
        Own(
            id="ORPO-001",
            name="orpo_beta",
            key="beta",
            argument="beta",
            of_trainer=False,
            elsewhere={"axolotl": ("rl_beta", "orpo_alpha"), "llama_factory": ("pref_beta",)},
            title="Beta",
            description="Weight of the odds ratio of the two answers, relative to the loss on the chosen answer.",
            formula="",
            value=0.1,
            because="usual start; a larger beta pushes the rejected answer away harder",
            source=f"{_PAPER}, where it is lambda; {_TRL} (beta)",
            accepts=(0.05, 1.0),
            above=0,
            closed=False,
            whole=False,
            most=10,
            values=None,
            changes={},
            watch="log_odds_ratio, nll_loss: both improve; if rewards/accuracies stay at 0.5, raise `alignment.beta`",
            page="ORPO beta: how much the odds ratio weighs in the loss.\n\n"
            "It is 0.1, the default of TRL's ORPOTrainer; the paper calls it lambda. The loss is that of supervised "
            "fine-tuning on the chosen answer, plus beta times how unlikely it is that the chosen answer has the "
            "better odds. There is no reference model, so beta holds nothing near the start: a larger beta moves the "
            "two answers further apart.",
        ),
    ),
    acts=(),
    acts_metrics=(),
    metrics=(
        *("nll_loss", "log_odds_ratio", "log_odds_chosen", "rewards/margins", "rewards/accuracies"),
        *("logps/chosen", "logps/rejected"),
    ),
    proof=("loss_halves", "margins_rise"),
)
