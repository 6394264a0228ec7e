"""Contrastive preference optimization: answers are compared by their log-probabilities, the chosen ones learned too."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import OF_DPO_ALONE, Method, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters (column of DPO)"
_PAPER = "CPO (arXiv 2401.08417, 2024)"
_ALMA = "github.com/fe1ixxu/ALMA/blob/28997eb/runs/cpo_ft.sh (2024)"
_RANKS = "github.com/fe1ixxu/ALMA/blob/28997eb/configs/deepspeed_train_config_bf16.yaml (16 processes)"
_TRL = "TRL 1.16 experimental/cpo/cpo_config.py"

CPO = Method(
    name="cpo",
    title="contrastive preference optimization",
    learns="to prefer the chosen answer over the rejected one, and to write it, without a reference to stay close to",
    full_name="full fine-tuning",
    example="pair",
    elsewhere=("cpo", "contrastive"),
    source=f"{_PAPER}; TRL 1.16 trainer/dpo_trainer.py and experimental/cpo/cpo_trainer.py",
    task="align",
    alignment="cpo",
    means="contrastive preference optimization: preference loss plus likelihood of the chosen answers, no reference "
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
    loss="contrast",
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
            1e-4,
            "rate of the authors' runs, which train an adapter",
            _ALMA,
            (1e-5, 2e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(
            1e-6,
            "default of TRL's CPOTrainer; the authors train adapters alone",
            f"{_TRL} (learning_rate)",
            (3e-7, 1e-5),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(
            0.1,
            "middle of the usual range for preferences, whose runs have few steps",
            f"{_TABLE}; {_ALMA} (0.01 of more steps)",
            (0.01, 0.15),
        ),
    ),
    epochs=(
        Default(3, "fewer than 1,000 pairs give few steps per pass", _TABLE, accepts=(1, 3), sizes=("<1K",)),
        Default(2, "usual number of passes over 1,000 to 10,000 pairs", _TABLE, accepts=(1, 3), sizes=("1K-10K",)),
        Default(
            1, "10,000 pairs or more give enough steps in the one pass of the authors", f"{_TABLE}; {_ALMA}", (1, 3)
        ),
    ),
    global_batch=(
        Default(32, "pairs per step of the authors' runs: 2 on each of 16 GPUs", f"{_ALMA}; {_RANKS}", (16, 128)),
    ),
    weight_decay=(Default(0.01, "that of the authors' runs", _ALMA, accepts=(0.0, 0.1)),),
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
            "CPO compares two answers in one pass, and dropout noise would count as a preference",
            f"{_TRL} (disable_dropout)",
        ),
    ),
    own=(
        Own(
            id="CPO-001",
            name="cpo_beta",
            key="beta",
            argument="beta",
            of_trainer=False,
            elsewhere={},
            title="Beta",
            description="Weight of the difference between the log-probabilities of the two answers.",
            formula="",
            value=0.1,
            because="beta of the authors' runs; with a larger one smaller differences count",
            source=f"{_PAPER}; {_ALMA}; {_TRL} (beta)",
            accepts=(0.05, 0.5),
            above=0,
            closed=False,
            whole=False,
            most=10,
            values=None,
            changes={},
            watch="rewards/margins, rewards/accuracies: both rise; if margins grow and accuracies do not, lower "
            "`alignment.beta`",
            page="CPO beta: how much a difference between the two answers counts.\n\n"
            "It is 0.1, as in the authors' runs; up to 0.5 is recipec's choice. A pair costs -log(sigmoid(beta * "
            "(chosen - rejected))), where both are the log-probability of a whole answer, summed over its tokens. A "
            "sum is lower for a longer answer. There is no reference model, so beta holds nothing near the start.",
        ),
        Own(
            id="CPO-002",
            name="nll_weight",
            key="nll_weight",
            argument="nll_weight",
            of_trainer=True,
            elsewhere={"trl": ("cpo_alpha",), "axolotl": ("cpo_alpha",)},
            title="Weight of the likelihood",
            description="How much the loss of the chosen answers, as in supervised fine-tuning, counts beside the "
            "comparison.",
            formula="",
            value=1.0,
            because="the paper adds it whole, so that the chosen answer stays likely",
            source=f"{_PAPER}; {_TRL} (cpo_alpha)",
            accepts=(0.05, 2.0),
            above=0,
            closed=True,
            whole=False,
            most=10,
            values=None,
            changes={},
            watch="nll_loss, logps/chosen: nll_loss does not rise; if logps/chosen falls, raise `alignment.nll_weight`",
            page="CPO nll_weight: how much the loss of the chosen answers counts.\n\n"
            "A comparison alone is also won by an unlikely chosen answer next to an even less likely rejected one. CPO "
            "therefore adds the loss of supervised fine-tuning on the chosen answers, with a weight of 1. It is the "
            "mean over their tokens, as in TRL's CPOTrainer. That 0.05 to 2 is accepted is recipec's choice.",
        ),
    ),
    acts=(),
    acts_metrics=(),
    metrics=(
        *("nll_loss", "rewards/margins", "rewards/accuracies", "rewards/chosen", "rewards/rejected"),
        *("logps/chosen", "logps/rejected"),
    ),
    proof=("loss_halves", "margins_rise"),
)
