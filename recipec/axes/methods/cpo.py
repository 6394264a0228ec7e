"""Contrastive preference optimization, and SimPO as one of its losses: two answers compared without a reference."""

from recipec.axes.method import Default, Method, Own, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters (column of DPO)"
_PAPER = "CPO (arXiv 2401.08417, 2024)"
_SIMPO = "SimPO (arXiv 2405.14734, 2024)"
_TIPS = "github.com/princeton-nlp/SimPO/blob/005072f/README.md (hyperparameter tuning)"
_TRL = "TRL 1.16 experimental/cpo/cpo_config.py"
_ALMA = "github.com/fe1ixxu/ALMA/blob/28997eb/runs/cpo_ft.sh (2024)"
_BOTH = "github.com/fe1ixxu/CPO_SIMPO/blob/42a3924/training_configs/llama-3-8b-instruct-cpo-simpo.yaml (2024)"

CPO = Method(
    name="cpo",
    title="contrastive preference optimization",
    learns="to prefer the chosen answer over the rejected one, without a reference to stay close to",
    full_name="full fine-tuning",
    example="pair",
    elsewhere=("cpo", "simpo"),
    source=f"{_PAPER}; {_SIMPO}; TRL 1.16 trainer/dpo_trainer.py and experimental/cpo/cpo_trainer.py",
    task="align",
    alignment="cpo",
    means="contrastive preference optimization, or SimPO, which is one of its losses: preference without a reference",
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
    drops_dropout=True,
    keeps_recomputation=True,
    adaptations=("lora", "qlora", "full"),
    adaptations_because="",
    preferred=(),
    preferred_because="",
    learning_rate=(
        Default(
            1e-5,
            "ten times the rate of full fine-tuning, because an adapter needs a larger one",
            f"recipec's choice; accepted up to that of {_ALMA}",
            (3e-6, 1e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(
            1e-6,
            "default of TRL's CPOTrainer, and high end of what the authors of SimPO tried; 1e-5 made models repeat "
            "themselves",
            f"{_TRL} (learning_rate); {_TIPS}; {_BOTH}",
            (3e-7, 5e-6),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(
            0.1,
            "middle of the usual range for preferences, whose runs have few steps",
            f"{_TABLE}; {_BOTH}",
            (0.01, 0.15),
        ),
    ),
    epochs=(
        Default(3, "fewer than 1,000 pairs give few steps per pass", _TABLE, accepts=(1, 3), sizes=("<1K",)),
        Default(2, "usual number of passes over 1,000 to 10,000 pairs", _TABLE, accepts=(1, 3), sizes=("1K-10K",)),
        Default(
            1,
            "10,000 pairs or more give enough steps in one pass, as in both papers",
            f"{_TABLE}; {_ALMA}; {_BOTH}",
            accepts=(1, 3),
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
            "the batch that the authors of SimPO keep to",
            f"{_SIMPO}; github.com/princeton-nlp/SimPO (README, hyperparameter tuning)",
            accepts=(32, 256),
        ),
    ),
    weight_decay=(Default(0.01, "usual start for fine-tuning", f"{_TABLE}; {_ALMA}", accepts=(0.0, 0.1)),),
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
            name="cpo_loss",
            key="loss",
            argument="loss_type",
            title="Loss",
            description="The form of the preference loss.",
            formula="",
            value="sigmoid",
            because="the loss of the CPO paper, which keeps the chosen answer likely",
            source=f"{_PAPER}; {_SIMPO}",
            accepts=None,
            above=None,
            closed=False,
            most=None,
            values={
                "sigmoid": "the loss of the CPO paper, without a reference",
                "simpo": "SimPO: log-probabilities per token, and a margin between them",
            },
            changes={},
            watch="rewards/accuracies, nll_loss: accuracies rise and nll_loss does not; if it does under simpo, set "
            "`alignment.nll_weight = 0.05`",
            page="CPO loss: the form of the loss.\n\n"
            "Both compare the log-probabilities of the two answers, without a reference model, by "
            "-log(sigmoid(beta * (chosen - rejected) - gamma)), and add nll_weight times the loss of supervised "
            "fine-tuning on the chosen answer.\n\n"
            "| loss | log-probability of an answer | beta | gamma | nll_weight |\n|---|---|---|---|---|\n"
            "| sigmoid | the sum over its tokens, so that long answers are less likely | 0.1 | 0 | 1 |\n"
            "| simpo | the mean over its tokens, whatever its length | 2 | half of beta | 0 |\n\n"
            "It is sigmoid, the loss of the CPO paper. The other three keys hold for both losses. SimPO with a small "
            "nll_weight is what the authors of CPO call CPO-SimPO.",
        ),
        Own(
            id="CPO-002",
            name="cpo_beta",
            key="beta",
            argument="beta",
            title="Beta",
            description="How much a difference between the two answers' log-probabilities counts. Decided from the "
            "loss.",
            formula="beta of a contrast",
            value=0.1,
            because="0.1 for sums of log-probabilities, 2 for means",
            source=f"{_PAPER}; {_ALMA}; TRL 1.16 experimental/cpo/cpo_trainer.py (cpo_loss); {_TIPS}",
            accepts=None,
            above=0,
            closed=False,
            most=10,
            values=None,
            changes={},
            watch="rewards/margins, rewards/accuracies: both rise; if margins grow and accuracies do not, lower "
            "`alignment.beta`",
            page="CPO beta: how much a difference between the two answers counts.\n\n"
            "It is 0.1 with the loss of CPO, as in its paper, and 2 with that of SimPO: a mean over tokens is smaller "
            "than their sum. The authors of SimPO used 2 and 2.5, and found up to 10 better in places. There is no "
            "reference model, so beta holds nothing near the start.",
        ),
        Own(
            id="CPO-003",
            name="cpo_gamma",
            key="gamma",
            argument="gamma",
            title="Gamma",
            description="By how much beta times the chosen answer's log-probability is to exceed that of the rejected "
            "one. Decided from the loss.",
            formula="margin of a contrast",
            value=0.0,
            because="half of beta for SimPO; CPO has no margin",
            source=f"{_SIMPO}; {_TIPS}; {_PAPER}",
            accepts=None,
            above=0,
            closed=True,
            most=10,
            values=None,
            changes={},
            watch="rewards/margins: rise above gamma; if they stay far below it, lower `alignment.gamma`",
            page="CPO gamma: the margin by which the chosen answer is to win.\n\n"
            "With the loss of SimPO it is half of beta, where its authors advise to start; they try 0 to 1 of beta. "
            "The loss of CPO has none, so gamma is 0 there. One that the recipe sets counts with either loss.",
        ),
        Own(
            id="CPO-004",
            name="nll_weight",
            key="nll_weight",
            argument="nll_weight",
            title="Weight of the likelihood",
            description="How much the loss of supervised fine-tuning on the chosen answer counts beside the "
            "comparison. Decided from the loss.",
            formula="likelihood beside a contrast",
            value=1.0,
            because="1 for CPO, 0 for SimPO",
            source=f"{_PAPER}; {_SIMPO}; {_TRL} (cpo_alpha); {_BOTH}",
            accepts=None,
            above=0,
            closed=True,
            most=10,
            values=None,
            changes={},
            watch="nll_loss, logps/chosen: nll_loss does not rise; if logps/chosen falls, raise `alignment.nll_weight`",
            page="CPO nll_weight: how much the loss on the chosen answer counts.\n\n"
            "A comparison alone is also won by an unlikely chosen answer next to an even less likely rejected one. CPO "
            "therefore adds the loss of supervised fine-tuning on the chosen answer, with a weight of 1. It is the "
            "mean over tokens, as in TRL's CPOTrainer, where the paper's formula has the sum. "
            "SimPO goes without, so the weight is 0 there; 0.05 has been published with it.",
        ),
    ),
    metrics=(
        *("nll_loss", "rewards/margins", "rewards/accuracies", "rewards/chosen", "rewards/rejected"),
        *("logps/chosen", "logps/rejected"),
    ),
    proof=("loss_halves", "margins_rise"),
)
