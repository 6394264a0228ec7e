"""Kahneman-Tversky optimization: single answers, each labeled desirable or undesirable."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import Method, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters (column of DPO)"
_PAPER = "KTO (arXiv 2402.01306, 2024)"
_DOCS = "huggingface.co/docs/trl/v1.12.0/kto_trainer"

_POLICY = Pass(model="policy", sequences=1, gradient=True, gives="tokens")
_REFERENCE = Pass(model="reference", sequences=1, gradient=False, gives="tokens")
# The prompt with the answer of another row: what the KL is estimated from.
_MISMATCHED = Pass(model="policy", sequences=1, gradient=False, gives="tokens")

KTO = Method(
    name="kto",
    title="Kahneman-Tversky optimization",
    learns="from single answers: to give desirable ones more often and undesirable ones less often, close to the model "
    "it starts from",
    full_name="full fine-tuning",
    example="answer",
    elsewhere=("kto",),
    source=f"{_PAPER}; TRL 1.16 trainer/kto_trainer.py",
    task="align",
    alignment="kto",
    means="Kahneman-Tversky optimization on single answers labeled good or bad",
    section="preferences",
    formats=("unpaired-preference", "preference"),
    kinds=("unpaired",),
    after=("sft",),
    module="trl",
    trainer="KTOTrainer",
    config="KTOConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="",
    judge="",
    passes=(_MISMATCHED, _POLICY, _REFERENCE, _REFERENCE),
    loss="unpaired",
    loss_outputs=("log_probs", "entropy", "mean_logits"),
    block_tokens=None,
    packs="never",
    packs_because="KTOTrainer takes every answer whole",
    unread={},
    truncates=True,
    least_micro_batch=2,
    least_micro_batch_because="the KL is estimated from prompts with the answers of other rows of the micro batch",
    sampling="sequential",
    sampling_because="shuffled by prepare_data.py; an estimate of the KL needs the order to stay",
    unread_arguments=(),
    precomputes="precompute_ref_log_probs",
    drops_dropout=True,
    keeps_recomputation=False,
    cached_bytes=28,
    copied_bytes=16,
    repeats="drops rows whose prompt fills `max_length` and writes the mismatched answers",
    adaptations=("lora", "qlora", "lora-int8", "ia3", "bottleneck", "full"),
    adaptations_because=WITHOUT_PROMPTS,
    preferred=("lora", "qlora", "full"),
    preferred_because="without its adapter the model is the reference, so LoRA needs no second copy of the weights",
    learning_rate=(
        Default(
            5e-6,
            "high end of the usual range for KTO, because an adapter takes a larger rate than all weights",
            f"{_PAPER}, appendix; {_DOCS} (learning rate recommendations)",
            (5e-7, 5e-6),
            adaptations=("lora", "qlora"),
        ),
        Default(
            1e-6,
            "highest rate that suits a beta of 0.1 in full fine-tuning",
            f"{_DOCS} (learning rate recommendations); TRL 1.16 trainer/kto_config.py",
            (5e-7, 5e-6),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(
            0.1,
            "middle of the usual range for preference methods, whose runs have few steps",
            f"{_TABLE}; TRL 1.16 scripts/kto.py",
            (0.05, 0.15),
        ),
    ),
    epochs=(
        Default(3, "fewer than 1,000 answers give few steps per pass", _TABLE, accepts=(1, 3), sizes=("<1K",)),
        Default(2, "usual number of passes over 1,000 to 10,000 answers", _TABLE, accepts=(1, 3), sizes=("1K-10K",)),
        Default(
            1,
            "10,000 answers or more give enough steps in one pass",
            f"{_TABLE}; TRL 1.16 scripts/kto.py",
            accepts=(1, 3),
        ),
    ),
    global_batch=(
        Default(
            32,
            "answers per step in the experiments of the KTO paper",
            f"{_PAPER}, appendix; {_DOCS} (batch size recommendations)",
            (16, 128),
        ),
    ),
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
            "more than 100,000 answers can use more capacity than the usual rank of 16",
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
            "KTO compares the policy with its reference, and dropout noise would count as a preference",
            "TRL 1.16 trainer/kto_config.py (disable_dropout)",
        ),
    ),
    own=(
        Own(
            id="KTO-001",
            name="kto_beta",
            key="beta",
            argument="beta",
            of_trainer=False,
            elsewhere={"axolotl": ("rl_beta",), "llama_factory": ("pref_beta",)},
            title="Beta",
            description="Strength of the constraint that keeps the model close to the reference model.",
            formula="",
            value=0.1,
            because="usual start; a larger beta keeps the policy closer to the reference",
            source=f"{_PAPER}; {_DOCS} (learning rate recommendations)",
            accepts=(0.01, 0.5),
            above=0,
            closed=False,
            whole=False,
            most=10,
            values=None,
            changes={},
            watch="kl, rewards/margins: kl stays small and margins rise; if kl keeps rising, raise `alignment.beta` or "
            "lower `train.learning_rate`",
            page="KTO beta: how strongly the model is kept close to the reference model.\n\n"
            "It is 0.1. The reward of an answer is beta times the change of its log-probability, and the loss "
            "compares it with beta times the KL to the reference. A larger beta keeps the policy closer. The learning "
            "rate must go with it: TRL's documentation gives 1e-6 as the most for a beta of 0.1, and less for a "
            "smaller one.",
        ),
        Own(
            id="KTO-002",
            name="kto_loss",
            key="loss",
            argument="loss_type",
            of_trainer=False,
            elsewhere={"trl": ("loss_type",)},
            title="Loss",
            description="Form of the preference loss, named as in TRL.",
            formula="",
            value="kto",
            because="the loss of the KTO paper; without weights its curve starts at 0.5",
            source=f"{_PAPER}; APO (arXiv 2408.06266, 2024)",
            accepts=None,
            above=None,
            closed=False,
            whole=False,
            most=None,
            values={
                "kto": "the loss of the KTO paper",
                "apo_zero_unpaired": "APO-zero without the KL term, for desirable answers that are better than the "
                "model's own",
            },
            changes={
                "apo_zero_unpaired": {
                    "passes": (_POLICY, _REFERENCE),
                    "least_micro_batch": 1,
                    "least_micro_batch_because": "",
                },
            },
            watch="loss, rewards/margins: the loss starts at half the mean weight of the answers and falls; margins "
            "rise from 0",
            page="KTO loss: the form of the loss.\n\n"
            "| loss | a reward is compared with | takes |\n|---|---|---|\n"
            "| kto | the KL to the reference, estimated from prompts with the answers of other rows of the micro "
            "batch | a pass more of policy and reference, and a micro batch of two or more |\n"
            "| apo_zero_unpaired | zero | desirable answers that are better than the model's own |\n\n"
            "It is kto, the loss of the paper.",
        ),
        Own(
            id="KTO-003",
            name="undesirable_weight",
            key="undesirable_weight",
            argument="undesirable_weight",
            of_trainer=False,
            elsewhere={"axolotl": ("kto_undesirable_weight",), "llama_factory": ("kto_rejected_weight",)},
            title="Weight of undesirable answers",
            description="Weight of the loss of undesirable answers (label `false`).",
            formula="weight of unwanted",
            value=1.0,
            because="",
            source=f"{_PAPER}; {_DOCS} (imbalanced data); TRL 1.16 trainer/kto_trainer.py",
            accepts=None,
            above=0,
            closed=False,
            whole=False,
            most=1000,
            values=None,
            changes={},
            watch="rewards/rejected: falls below rewards/chosen; if it stays at 0, raise "
            "`alignment.undesirable_weight`",
            page="Weight of undesirable answers: how much the loss of one counts.\n\n"
            "It is more than 1 where they are the rarer kind. The KTO paper keeps the weight times the number of the "
            "desirable answers within 1 to 4/3 times the same of the undesirable ones. recipec aims at the middle of "
            "that range, which leaves room for the error of a sampled share. Every weight is accepted, because KTO-004 "
            "balances it with that of the desirable answers. Pairs have as many of both kinds, so both weights stay "
            "1.",
        ),
        Own(
            id="KTO-004",
            name="desirable_weight",
            key="desirable_weight",
            argument="desirable_weight",
            of_trainer=False,
            elsewhere={"axolotl": ("kto_desirable_weight",), "llama_factory": ("kto_chosen_weight",)},
            title="Weight of desirable answers",
            description="Weight of the loss of desirable answers (label `true`).",
            formula="weight of wanted",
            value=1.0,
            because="",
            source=f"{_PAPER}; {_DOCS} (imbalanced data); TRL 1.16 trainer/kto_trainer.py",
            accepts=None,
            above=0,
            closed=False,
            whole=False,
            most=1000,
            values=None,
            changes={},
            watch="rewards/chosen: rises above rewards/rejected; if both fall, raise `alignment.desirable_weight`",
            page="Weight of desirable answers: how much the loss of one counts.\n\n"
            "It is more than 1 where they are the rarer kind; KTO-003 has the range. It also balances a weight of "
            "undesirable answers that the recipe sets.",
        ),
    ),
    acts=(),
    acts_metrics=(),
    metrics=(
        "rewards/chosen",
        "rewards/rejected",
        "rewards/margins",
        "logps/chosen",
        "logps/rejected",
        "kl",
        "entropy",
    ),
    proof=("starts_as_reference", "rewards_separate"),
)
