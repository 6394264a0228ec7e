"""Direct preference optimization."""

from recipec.axes.method import Default, Method, Own, Pass

_TABLE = "docs/rule-books.md, 001, Key Hyperparameter Rules (DPO)"
_PAPER = "DPO (arXiv 2305.18290, 2023)"

DPO = Method(
    name="dpo",
    title="direct preference optimization",
    learns="to prefer the chosen answer over the rejected one, close to the model it starts from",
    full_name="full fine-tuning",
    source=f"{_PAPER}; TRL 1.16 trainer/dpo_trainer.py",
    task="align",
    alignment="dpo",
    means="direct preference optimization",
    section="preferences",
    formats=("preference",),
    after=("sft",),
    module="trl",
    trainer="DPOTrainer",
    config="DPOConfig",
    auto_class="AutoModelForCausalLM",
    peft_task="CAUSAL_LM",
    random_weights=False,
    passes=(
        Pass(model="policy", sequences=2, gradient=True, gives="tokens"),
        Pass(model="reference", sequences=2, gradient=False, gives="tokens"),
    ),
    head="chunked",
    loss="pairs",
    loss_outputs=("log_probs", "entropy", "mean_logits", "is_top1"),
    generates=False,
    block_tokens=None,
    packs="never",
    packs_because="DPOTrainer ignores a request to pack pairs",
    groups_lengths=False,
    groups_because="DPOTrainer hands no lengths to its sampler",
    drops_dropout=True,
    keeps_recomputation=False,
    accumulates_by_tokens=False,
    adaptations=("lora", "qlora", "full"),
    adaptations_because="",
    preferred=("lora", "qlora", "full"),
    preferred_because="the adapter switched off is the reference",
    learning_rate=(
        Default(5e-6, "usual for preference adapters", _TABLE, (5e-7, 5e-6), adaptations=("lora", "qlora")),
        Default(5e-7, "all weights drift fast from the reference", f"{_TABLE}; {_PAPER}", (5e-7, 5e-6)),
    ),
    warmup=(Default(0.1, "preferences are learned in few steps", _TABLE, accepts=(0.05, 0.15)),),
    epochs=(
        Default(3, "fewer than 1,000 pairs", _TABLE, accepts=(1, 3), sizes=("<1K",)),
        Default(2, "1,000 to 10,000 pairs", _TABLE, accepts=(1, 3), sizes=("1K-10K",)),
        Default(1, "10,000 pairs or more, which are overfitted soonest of all data", _TABLE, accepts=(1, 3)),
    ),
    global_batch=(Default(32, "common number of pairs in a step", _TABLE, accepts=(16, 64)),),
    weight_decay=(Default(0.01, "usual start for fine-tuning", _TABLE, accepts=(0.0, 0.1)),),
    adam_beta2=(Default(0.999, "the default of AdamW: a memory of about 1,000 steps", "torch 2.13 optim/adamw.py"),),
    lora_rank=(
        Default(
            32, "more than 100,000 pairs hold more than a rank of 16 can take up", _TABLE, (16, 64), sizes=(">100K",)
        ),
        Default(16, "usual start; harder tasks take more", _TABLE, accepts=(16, 64)),
    ),
    lora_alpha_most=64,
    lora_dropout=(
        Default(
            0.0,
            "policy and reference are compared, and noise in one of them would count as a preference",
            "TRL 1.16 DPOConfig.disable_dropout",
        ),
    ),
    own=(
        Own(
            id="DPO-001",
            name="beta",
            key="beta",
            title="Beta",
            description="How strongly the model is held near its reference.",
            value=0.1,
            because="usual start; a larger beta holds the policy closer to the reference",
            source="docs/rule-books.md, 001, Anti-Pattern 7",
            accepts=(0.1, 0.5),
            above=0,
            closed=False,
            most=10,
            values=None,
            watch="rewards/margins, rewards/chosen: margins rise; chosen rewards far below 0 ask for a larger beta",
            page="Decides how strongly the policy is held to the reference: 0.1.\n\n"
            "001 starts at 0.1 and raises it to 0.5 against over-optimisation. A smaller beta lets the policy drift "
            "further and is warned about.",
        ),
        Own(
            id="DPO-002",
            name="dpo_loss",
            key="loss",
            title="Loss",
            description="The form of the preference loss.",
            value="sigmoid",
            because="the loss of the DPO paper, which starts at ln 2 = 0.693",
            source=f"docs/rule-books.md, 001, Step 1 (DPO); {_PAPER}",
            accepts=None,
            above=None,
            closed=False,
            most=None,
            values={
                "sigmoid": "the loss of the DPO paper",
                "ipo": "squared distance to a margin: resists overfitting to sure preferences",
                "hinge": "stops pushing once the margin is reached",
                "robust": "expects that some labels are wrong",
            },
            watch="loss, rewards/accuracies: loss starts at ln 2 = 0.693 and falls while accuracies leave 0.5",
            page="Decides the preference loss: sigmoid, the one of the DPO paper.\n\n"
            "001 names DPO without a variant. The pinned DPOTrainer has fifteen; the original is the one whose curve "
            "everybody can read, since it starts at ln 2.",
        ),
    ),
    metrics=("rewards/margins", "rewards/accuracies", "rewards/chosen", "logps/chosen", "entropy"),
    proof=("loss_halves", "margins_rise"),
)
