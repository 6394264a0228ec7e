"""Reward modeling: a model that gives each answer one score."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import Method, Pass

_INSTRUCT = "InstructGPT (arXiv 2203.02155, 2022, appendix C.2)"
_LLAMA2 = "Llama 2 (arXiv 2307.09288, 2023, section 3.2.2)"
_TRL = "TRL 1.16 trainer/reward_config.py"
_CHOICE = "recipec's choice"

REWARD = Method(
    name="reward",
    title="reward modeling",
    learns="to score the chosen answer above the rejected one",
    full_name="full fine-tuning",
    example="pair",
    elsewhere=("rm", "reward-model", "reward_model", "reward-modeling", "reward_modeling", "bradley-terry"),
    source=f"{_INSTRUCT}; {_LLAMA2}; TRL 1.16 trainer/reward_trainer.py",
    task="reward",
    alignment="",
    means="a reward model from preference pairs",
    section="preferences",
    formats=("preference",),
    kinds=("pairs",),
    after=(),
    module="trl",
    trainer="RewardTrainer",
    config="RewardConfig",
    auto_class="AutoModelForSequenceClassification",
    new_head="score",
    random_weights=False,
    generator="",
    judge="",
    passes=(Pass(model="policy", sequences=2, gradient=True, gives="score"),),
    loss="ranking",
    loss_outputs=(),
    block_tokens=None,
    packs="never",
    packs_because="RewardTrainer reads a score at the end of each sequence, so answers cannot share one",
    unread={"margin": "RewardTrainer would subtract it from the difference of the two scores"},
    truncates=False,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="RewardTrainer cannot group pairs by length",
    unread_arguments=(),
    precomputes="",
    drops_dropout=True,
    keeps_recomputation=True,
    cached_bytes=15,
    copied_bytes=0,
    repeats="drops pairs over `max_length`",
    adaptations=("lora", "qlora", "lora-int8", "ia3", "full"),
    adaptations_because=WITHOUT_PROMPTS,
    preferred=(),
    preferred_because="",
    learning_rate=(
        Default(
            1e-4,
            "default of RewardTrainer, which suits adapters",
            f"{_TRL} (learning_rate)",
            accepts=(1e-5, 3e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(
            1e-5,
            "rate of the Llama 2 reward models under 70B; InstructGPT took 9e-6",
            f"{_LLAMA2}; {_INSTRUCT}",
            accepts=(5e-6, 2e-5),
            adaptations=("full",),
            params_below=60e9,
        ),
        Default(
            5e-6,
            "rate of the Llama 2 reward model of 70B",
            _LLAMA2,
            accepts=(1e-6, 1e-5),
            adaptations=("full",),
        ),
    ),
    warmup=(Default(0.03, "share of the Llama 2 reward models", _LLAMA2, accepts=(0.0, 0.1)),),
    epochs=(
        Default(
            1,
            "a second pass overfits, as InstructGPT and Llama 2 found",
            f"{_INSTRUCT}; {_LLAMA2}",
            accepts=(1, 2),
        ),
    ),
    global_batch=(
        Default(
            64,
            "prompts per step of InstructGPT; Llama 2 took 512 pairs of far more data",
            f"{_INSTRUCT}; {_LLAMA2}",
            accepts=(32, 512),
        ),
    ),
    weight_decay=(
        Default(
            0.01,
            "usual start for fine-tuning",
            "docs/rule-books/001.md, Key hyperparameters; Step 4",
            accepts=(0.0, 0.1),
        ),
    ),
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
            f"{_CHOICE}; docs/rule-books/001.md, Key hyperparameters",
            (8, 64),
            sizes=(">100K",),
        ),
        Default(
            16, "usual start; harder tasks need more", "docs/rule-books/001.md, Key hyperparameters; Step 3", (8, 64)
        ),
    ),
    lora_alpha_most=128,
    lora_dropout=(
        Default(
            0.0,
            "dropout noise would move the difference of two scores, and one pass leaves little to overfit",
            f"{_TRL} (disable_dropout)",
            accepts=(0.0, 0.1),
        ),
    ),
    own=(
        Own(
            id="REWARD-001",
            name="center_rewards_coefficient",
            key="center_rewards_coefficient",
            argument="center_rewards_coefficient",
            of_trainer=False,
            elsewhere={},
            title="Center rewards",
            description="Strength of the penalty that centers the scores around 0; 0 turns it off.",
            formula="",
            value=0.01,
            because="the ranking loss sees differences alone, and scores around 0 keep their precision in 16 bits",
            source=f"Helping or Herding (arXiv 2312.09244, 2023); {_TRL} (center_rewards_coefficient)",
            accepts=(0.0, 0.1),
            above=0,
            closed=True,
            whole=False,
            most=1,
            values=None,
            changes={},
            watch="mean_reward, accuracy: the mean reward stays near 0; if accuracy falls behind a run without "
            "centering, lower `alignment.center_rewards_coefficient`",
            page="Centering: how strongly the scores are held around 0.\n\n"
            "The ranking loss compares two answers to the same prompt, so it leaves the level of the scores free. The "
            "term adds the coefficient times the square of the sum of both scores. It is 0.01, the value that TRL "
            "recommends; TRL itself leaves the term out.\n\n"
            "Scores are computed in 16 bits, which resolve a small score better than a large one. Trainers that see "
            "the score itself, as PPO and RLOO do, and comparisons between prompts need a known level. GRPO divides by "
            "the spread of a group and needs none. 0 switches the term off.",
        ),
    ),
    acts=(),
    acts_metrics=(),
    metrics=(
        *("accuracy", "margin", "mean_reward", "min_reward", "max_reward"),
        *("eval_accuracy", "eval_margin", "eval_mean_reward"),
    ),
    proof=("loss_halves", "accuracy_rises"),
)
