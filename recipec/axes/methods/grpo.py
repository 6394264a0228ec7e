"""Group relative policy optimization: several answers to each prompt, judged by rewards, compared with each other."""

from recipec.axes.answering import (
    ENGINE,
    ENGINE_TENSOR_PARALLEL,
    MAX_NEW_TOKENS,
    RESULT_TOKENS,
    SERVER_GPUS,
    TEMPERATURE,
    TOOL_ROUNDS,
)
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import Method, Pass
from recipec.axes.variants import VARIANTS

_PAPER = "DeepSeekMath (arXiv 2402.03300, 2024)"
_TRL = "TRL 1.16 trainer/grpo_config.py"
_LORA = "LoRA Without Regret (thinkingmachines.ai/blog/lora, 2025)"
_CHOICE = "recipec's choice"

_POLICY = Pass(model="policy", sequences=1, gradient=True, gives="tokens")
_REFERENCE = Pass(model="reference", sequences=1, gradient=False, gives="tokens")

VARIANT = Own(
    id="RL-001",
    name="variant",
    key="variant",
    argument="loss_type",
    of_trainer=False,
    elsewhere={"trl": ("loss_type",), "axolotl": ("rl_loss_type",), "typed": ("grpo_variant", "loss_type")},
    title="Variant",
    description="Variant of GRPO: how answers are compared, weighted and clipped.",
    formula="",
    value="dapo",
    because="every token has the same weight, so that neither short nor long answers are favored; the default of TRL",
    source="; ".join(dict.fromkeys(row.source for row in VARIANTS.values())),
    accepts=None,
    above=None,
    closed=False,
    whole=False,
    most=None,
    values={row.name: row.told for row in VARIANTS.values()},
    changes={},
    watch="reward, frac_reward_zero_std: the reward rises; if most groups have equal rewards, nothing is learned: use "
    "prompts that are neither always nor never solved",
    page="Variant of GRPO: how the answers to a prompt are compared, weighed and clipped.\n\n"
    "| variant | divides the loss by | a probability may change by | rewards divided by | KL | answers | updates |\n"
    "|---|---|---|---|---|---|---|\n"
    "| grpo | each answer's length, then their number | -0.2, +0.2 | spread of the group | 0.001 | 16 | 1 |\n"
    "| dapo | all tokens | -0.2, +0.28 | spread of the group | 0 | 16 | 1 |\n"
    "| dr_grpo | answers x longest length | -0.2, +0.2 | nothing | 0 | 8 | 1 |\n"
    "| gspo | each answer's length, then their number | -0.0003, +0.0004 of a whole answer | spread of the group | 0 | "
    "8 | 4 |\n"
    "| cispo | all tokens | weights up to 5 | spread of the batch | 0 | 16 | 1 |\n"
    "| sapo | each answer's length, then their number | a soft gate | spread of the group | 0 | 8 | 1 |\n\n"
    "How far a probability may change counts only where answers are learned from in several updates. With one update "
    "of a generation, the answers are those of the very weights that learn: the ratio of probabilities is 1, and "
    "nothing is clipped. Clipping acts from `alignment.generation.updates = 2` on.\n\n"
    "It is dapo. Every value is written out in train.py, because defaults of TRL contradict three papers: without "
    "`epsilon_high` cispo clips weights at 0.2, without `scale_rewards` dr_grpo divides by the spread that its paper "
    "removes, and gspo under the default loss weighs answers by their length. TRL has no dynamic sampling (DAPO), and "
    "the soft punishment of long answers is a reward that you write.",
)

GRPO = Method(
    name="grpo",
    title="group relative policy optimization",
    learns="to write answers that earn more reward than its other answers to the same prompt",
    full_name="full fine-tuning",
    example="answer",
    elsewhere=("grpo", "rlvr", "reinforcement-learning", "rl"),
    source=f"{_PAPER}; TRL 1.16 trainer/grpo_trainer.py",
    task="align",
    alignment="grpo",
    means="group relative policy optimization: several answers per prompt, scored by your reward functions",
    section="prompts",
    formats=("prompts",),
    kinds=("prompts",),
    after=("sft",),
    module="trl",
    trainer="GRPOTrainer",
    config="GRPOConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="transformers",
    judge="",
    passes=(_REFERENCE, _POLICY),
    loss="advantages_near",
    loss_outputs=("log_probs", "entropy"),
    block_tokens=None,
    packs="never",
    packs_because="answers are written while training, so there is nothing to pack before",
    unread={},
    truncates=False,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="GRPOTrainer repeats each prompt as often as it is answered, in a random order",
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
        Default(
            1e-6,
            "rate of DAPO, of Dr. GRPO and of TRL's default",
            f"DAPO (arXiv 2503.14476, section 4.1); {_TRL}",
            (5e-7, 3e-6),
            adaptations=("full",),
        ),
    ),
    warmup=(Default(0.03, "a few steps, while rewards of the first answers vary most", _CHOICE, accepts=(0.0, 0.1)),),
    epochs=(Default(1, "a prompt is answered many times in one pass", _CHOICE, accepts=(1, 20)),),
    global_batch=(
        Default(
            128,
            "eight prompts or more in each step, so that one of them does not decide it; the papers take 512",
            f"{_CHOICE}; DAPO (arXiv 2503.14476, section 4.1)",
            (16, 1024),
        ),
    ),
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
            "TRL 1.16 trainer/grpo_config.py (disable_dropout); run: clip_ratio/region_mean 0.03 in place of 0",
        ),
    ),
    own=(
        VARIANT,
        Own(
            id="RL-002",
            name="kl_beta",
            key="beta",
            argument="beta",
            of_trainer=False,
            elsewhere={"axolotl": ("rl_beta",), "llama_factory": ("pref_beta",)},
            title="Beta",
            description="Strength of the constraint that keeps the model close to the reference model.",
            formula="KL of variant",
            value=0.001,
            because="",
            source="; ".join(dict.fromkeys(row.source for row in VARIANTS.values())),
            accepts=(0.0, 0.1),
            above=0,
            closed=True,
            whole=False,
            most=10,
            values=None,
            changes={0.0: {"passes": (_POLICY,), "loss": "advantages"}},
            watch="reward, entropy: the reward rises and entropy falls slowly; if answers drift, raise "
            "`alignment.beta`",
            page="KL of GRPO: how strongly the model is held near the model it starts from.\n\n"
            "It is that of the variant: 0.001 for grpo, 0 for all others, whose papers leave the KL out. At 0 no "
            "reference is kept and none scores the answers. Above 0 the KL is part of the loss, corrected by the "
            "ratio of probabilities (DeepSeek-V3.2, arXiv 2512.02556); full fine-tuning then keeps a copy of the "
            "starting weights, and an adapter is switched off for it. `kl` is logged per token.",
        ),
        Own(
            id="RL-003",
            name="per_prompt",
            key="generation.per_prompt",
            argument="num_generations",
            of_trainer=False,
            elsewhere={"trl": ("num_generations",), "typed": ("num_generations", "group_size", "rollouts")},
            title="Answers per prompt",
            description="Number of answers that are generated and compared for each prompt.",
            formula="answers of variant",
            value=16,
            because="",
            source="; ".join(dict.fromkeys(row.source for row in VARIANTS.values())),
            accepts=(4, 64),
            above=2,
            closed=True,
            whole=True,
            most=1024,
            values=None,
            changes={},
            watch="frac_reward_zero_std, reward_std: most groups have answers of different reward; if not, raise "
            "`alignment.generation.per_prompt`",
            page="Answers to a prompt: how many are written and compared with each other.\n\n"
            "It is that of the variant's paper: 16, or 8 for dr_grpo, and for gspo and sapo, where it is TRL's "
            "default. An answer is as good as it is better than the others of its group, so that a group in which all "
            "earn the same teaches nothing. The global batch counts answers and holds whole groups.",
        ),
        MAX_NEW_TOKENS,
        TEMPERATURE,
        ENGINE,
        Own(
            id="RL-006",
            name="updates",
            key="generation.updates",
            argument="steps_per_generation",
            of_trainer=False,
            elsewhere={"trl": ("steps_per_generation", "generation_batch_size")},
            title="Updates per generation",
            description="Number of optimizer steps that one generation batch is split into.",
            formula="updates of variant",
            value=1,
            because="",
            source="; ".join(dict.fromkeys(row.source for row in VARIANTS.values())),
            accepts=(1, 16),
            above=1,
            closed=True,
            whole=True,
            most=64,
            values=None,
            changes={},
            watch="reward, entropy: smooth; more updates of older answers make both jump",
            page="Updates of a generation: among how many optimizer steps its answers are shared.\n\n"
            "It is 4 for gspo, whose clipping needs older answers. For the others it is 1, recipec's choice: the "
            "answers are those of the very weights that learn, the ratio of probabilities is 1, and no variant clips "
            "anything. Clipping acts from 2 on. DeepSeekMath takes 1 update of each generation; DAPO takes 16 (512 "
            "prompts with 16 answers each, in batches of 512 answers) and MiniMax-M1 16 for cispo, so that dapo's "
            "higher upper limit and cispo's weights act in their papers, and here from "
            "`alignment.generation.updates = 2` on.\n\n"
            "More updates also save time: a GPU writes many answers nearly as fast as a few, and N updates write those "
            "of N steps together. Their price is that all steps of a generation but the first learn from answers that "
            "older weights wrote. Where writing answers takes most of a step, `recipec plan` says what more updates "
            "would save.\n\n"
            "`steps_per_generation` counts micro steps, so train.py has this times the gradient accumulation. "
            "Checkpoints are saved between generations alone: a resumed run would lose the answers that wait.",
        ),
    ),
    acts=(RESULT_TOKENS, TOOL_ROUNDS),
    serves=(SERVER_GPUS,),
    splits=(ENGINE_TENSOR_PARALLEL,),
    acts_metrics=("tools/call_frequency", "tools/failure_frequency"),
    metrics=(
        *("reward", "reward_std", "frac_reward_zero_std", "entropy"),
        *("completions/clipped_ratio", "completions/mean_length", "eval_reward", "kl"),
    ),
    proof=("reward_rises",),
)
