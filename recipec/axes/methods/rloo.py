"""REINFORCE leave-one-out: each answer is as good as it is better than the mean of the other answers to its prompt."""

from recipec.axes.answering import MAX_NEW_TOKENS, TEMPERATURE
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import Method, Pass

_PAPER = "RLOO (arXiv 2402.14740, 2024)"
_TRL = "TRL 1.16 trainer/rloo_config.py"
_LORA = "LoRA Without Regret (thinkingmachines.ai/blog/lora, 2025)"
_CHOICE = "recipec's choice"

CLIP_RANGE = 0.2  # of the ratio of a whole answer, new to old: see UPDATES

_POLICY = Pass(model="policy", sequences=1, gradient=True, gives="tokens")
_REFERENCE = Pass(model="reference", sequences=1, gradient=False, gives="tokens")

BETA = Own(
    id="RLOO-001",
    name="kl_weight",
    key="beta",
    argument="beta",
    of_trainer=False,
    elsewhere={"axolotl": ("rl_beta",), "llama_factory": ("pref_beta",)},
    title="Beta",
    description="Strength of the constraint that keeps the model close to the reference model.",
    formula="",
    value=0.05,
    because="each nat that an answer is away from the reference takes this off its reward; the default of TRL",
    source=f"{_TRL} (beta); {_PAPER}",
    accepts=(0.0, 0.5),
    above=0,
    closed=True,
    whole=False,
    most=10,
    values=None,
    changes={0.0: {"passes": (_POLICY,), "loss": "one_out"}},
    watch="kl, reward: the reward rises while kl stays small; if answers drift, raise `alignment.beta`",
    page="KL of RLOO: what each nat that an answer is away from the reference costs of its reward.\n\n"
    "It is 0.05, the default of TRL. The KL is part of the reward, summed over the answer: log p of the policy that "
    "wrote the answer minus log p of the reference, with its sign. The weight has a meaning only beside the scale of "
    "the rewards, which RLOO does not divide by their spread: 0.05 suits rewards that spread by about 1. At 0 no "
    "reference is kept and none scores the answers. `kl` is logged per token.",
)
PER_PROMPT = Own(
    id="RLOO-002",
    name="per_prompt",
    key="generation.per_prompt",
    argument="num_generations",
    of_trainer=False,
    elsewhere={"trl": ("num_generations",), "typed": ("num_generations", "group_size", "rollouts")},
    title="Answers per prompt",
    description="Number of answers that are generated and compared for each prompt.",
    formula="",
    value=4,
    because="the mean reward of three other answers is what an answer is compared with; the larger group of the paper",
    source=f"{_PAPER}, which compares 2 and 4",
    accepts=(2, 16),
    above=2,
    closed=True,
    whole=True,
    most=1024,
    values=None,
    changes={},
    watch="reward_std, reward: the reward rises; where it jumps from step to step, raise "
    "`alignment.generation.per_prompt`",
    page="Answers to a prompt: how many are written and compared with each other.\n\n"
    "It is 4, the larger group of the paper; TRL's default is 2. An answer counts by how much its reward exceeds the "
    "mean reward of the other answers to its prompt, so that more answers make that mean less a matter of chance. "
    "The global batch counts answers and holds whole groups.",
)
UPDATES = Own(
    id="RLOO-003",
    name="updates",
    key="generation.updates",
    argument="steps_per_generation",
    of_trainer=False,
    elsewhere={"trl": ("steps_per_generation", "generation_batch_size")},
    title="Updates per generation",
    description="Number of optimizer steps that one generation batch is split into.",
    formula="",
    value=1,
    because="every step learns from answers that the present weights wrote, as REINFORCE assumes",
    source=f"{_PAPER}; {_TRL} (epsilon, {CLIP_RANGE:g} by default)",
    accepts=(1, 4),
    above=1,
    closed=True,
    whole=True,
    most=64,
    values=None,
    changes={},
    watch="reward, entropy: smooth; more updates of older answers make both jump",
    page="Updates of a generation: among how many optimizer steps its answers are shared.\n\n"
    "It is 1. With more, later steps learn from answers that older weights wrote; the ratio of the probabilities of a "
    f"whole answer, new to old, then weighs it, and TRL clips the ratio to {1 - CLIP_RANGE:g} to {1 + CLIP_RANGE:g} "
    "(`epsilon`). `steps_per_generation` counts micro steps, so train.py has this times the gradient accumulation. "
    "Checkpoints are saved between generations alone: a resumed run would lose the answers that wait.",
)

RLOO = Method(
    name="rloo",
    title="REINFORCE leave-one-out",
    learns="to write answers that earn more reward than the mean of its other answers to the same prompt",
    full_name="full fine-tuning",
    example="answer",
    elsewhere=("rloo", "reinforce"),
    source=f"{_PAPER}; TRL 1.16 trainer/rloo_trainer.py",
    task="align",
    alignment="rloo",
    means="REINFORCE leave-one-out: a few answers per prompt, each compared with the mean reward of the others",
    section="prompts",
    formats=("prompts",),
    kinds=("prompts",),
    after=("sft",),
    module="trl",
    trainer="RLOOTrainer",
    config="RLOOConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="transformers",
    judge="",
    passes=(_REFERENCE, _POLICY),
    loss="one_out_near",
    loss_outputs=("log_probs", "entropy"),
    block_tokens=None,
    packs="never",
    packs_because="answers are written while training, so there is nothing to pack before",
    unread={},
    truncates=False,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="RLOOTrainer repeats each prompt as often as it is answered, in a random order",
    unread_arguments=("train_sampling_strategy",),
    precomputes="",
    drops_dropout=True,
    keeps_recomputation=False,
    cached_bytes=0,
    copied_bytes=0,
    repeats="",
    adaptations=("lora", "qlora", "lora-int8", "full"),
    adaptations_because="answers have been written with low-rank adapters alone in our runs",
    preferred=("lora", "qlora", "full"),
    preferred_because="a reward teaches few bits for each answer, which small adapters hold",
    learning_rate=(
        Default(
            1e-5,
            "ten times the rate of full fine-tuning, as adapters take",
            _LORA,
            (1e-6, 1e-4),
            adaptations=("lora", "qlora"),
        ),
        Default(1e-6, "rate of TRL's default", f"{_TRL} (learning_rate)", (5e-7, 3e-6), adaptations=("full",)),
    ),
    warmup=(Default(0.03, "a few steps, while rewards of the first answers vary most", _CHOICE, accepts=(0.0, 0.1)),),
    epochs=(Default(1, "a prompt is answered several times in one pass", _CHOICE, accepts=(1, 20)),),
    global_batch=(Default(128, "32 prompts in each step, so that none of them decides it", _CHOICE, (16, 1024)),),
    weight_decay=(Default(0.0, "rewards decide how far weights move", f"{_TRL} (weight_decay)", accepts=(0.0, 0.1)),),
    adam_beta2=(
        Default(
            0.999,
            "default of AdamW, which averages squared gradients over about 1,000 steps",
            "docs/rule-books/002.md, Step 2; torch 2.13 optim/adamw.py",
        ),
    ),
    lora_rank=(Default(16, "ranks of 1 to 16 reach full fine-tuning where rewards teach", _LORA, accepts=(1, 64)),),
    lora_alpha_most=64,
    lora_dropout=(
        Default(
            0.0,
            "dropout would stay on while answers are written and scored, and count as a change of the policy",
            f"{_TRL} (disable_dropout)",
        ),
    ),
    own=(BETA, PER_PROMPT, MAX_NEW_TOKENS, TEMPERATURE, UPDATES),
    acts=(),
    acts_metrics=(),
    metrics=(
        *("reward", "reward_std", "frac_reward_zero_std", "entropy"),
        *("completions/clipped_ratio", "completions/mean_length", "eval_reward", "kl"),
    ),
    proof=("reward_rises",),
)
