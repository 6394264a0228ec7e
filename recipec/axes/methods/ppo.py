"""Proximal policy optimization: answers are judged, and each token is credited by what a value head had expected."""

from msgspec.structs import replace

from recipec.axes.answering import MAX_NEW_TOKENS, TEMPERATURE
from recipec.axes.hyperparameters import Default, Own
from recipec.axes.method import OBJECTIVE, Method, Pass

_PPO = "PPO (arXiv 1707.06347, 2017)"
_GAE = "GAE (arXiv 1506.02438, 2016)"
_DETAILS = "The N+ Implementation Details of RLHF with PPO (arXiv 2403.17031, 2024)"
_ZIEGLER = "Fine-Tuning Language Models from Human Preferences (arXiv 1909.08593, 2019)"
_LORA = "LoRA Without Regret (thinkingmachines.ai/blog/lora, 2025)"
_CHOICE = "recipec's choice"

_POLICY = Pass(model="policy", sequences=1, gradient=True, gives="tokens")
_REFERENCE = Pass(model="reference", sequences=1, gradient=False, gives="tokens")


def _number(id: str, name: str, key: str, argument: str, value: float, **more: object) -> Own:
    """A number that train.py's configuration carries; what is not said here is usual for it."""
    usual = {
        "of_trainer": False,
        "elsewhere": {},
        "formula": "",
        "above": 0,
        "closed": True,
        "whole": False,
        "values": None,
        "changes": {},
    }
    return Own(id=id, name=name, key=key, argument=argument, value=value, **(usual | more))


BETA = _number(
    "PPO-001",
    "kl_weight",
    "beta",
    "beta",
    0.05,
    title="Beta",
    description="Strength of the constraint that keeps the model close to the reference model.",
    because="usual weight of the KL in the rewards of tokens",
    source=_DETAILS,
    accepts=(0.01, 0.5),
    most=10,
    elsewhere={"axolotl": ("rl_beta",), "llama_factory": ("pref_beta",)},
    watch="kl, reward: kl stays below 10 nats of an answer while the reward rises; if kl runs ahead of it, raise "
    "`alignment.beta`",
    page="KL of PPO: what each nat that an answer is away from the reference costs of its reward.\n\n"
    "It is 0.05. The KL is part of the reward, token by token: log p of the policy that wrote the answer minus log p "
    "of the reference, with its sign. Its absolute value, or the k3 estimate, has another gradient there. The weight "
    "has a meaning only beside the scale of the rewards: 0.05 suits rewards that spread by about 1.\n\n"
    "Evaluations report `eval_objective`: `eval_reward` minus this weight times `eval_kl`, minus "
    "`alignment.missing_eos_penalty` times `eval_clipped_ratio`. The checkpoint with the highest one is kept: the "
    "reward alone would prefer the one that has left the reference furthest behind. "
    "`alignment.target_kl` adapts it while training.",
)
TARGET_KL = _number(
    "PPO-002",
    "target_kl",
    "target_kl",
    "target_kl",
    0.0,
    title="Target KL",
    description="Target for the KL divergence of an answer from the reference model, in nats. The weight of the KL is "
    "adapted "
    "to it; 0 keeps the weight fixed.",
    because="no target suits every reward and answer length, so the weight of the KL stays as it is",
    source=f"{_ZIEGLER}, section 2.2",
    accepts=(0.0, 20.0),
    most=1000,
    watch="kl, kl_weight: with a target, kl_weight changes by up to 2% in a generation until kl is near it; if it "
    "keeps rising, lower `train.learning_rate`",
    page="Target of the KL: how far answers may be from the reference, in nats of a whole answer.\n\n"
    'It is 0: the weight stays at `alignment.beta`, also with `alignment.kl_control = "high"`. For an adaptive weight '
    "set a target; recipec knows none that suits every reward and every length of answers.\n\n"
    "Above 0 the weight grows where answers are further away than the target and "
    "shrinks where they are nearer, once in each generation: by a tenth of the relative distance of the KL from its "
    "target, of which at most 0.2 counts. So it changes by at most 2% in a generation, and doubles in 35 (the "
    "controller of the paper, with its gain of 0.1). A run of few generations needs a fitting `alignment.beta` to "
    "begin with. A checkpoint has the weight, so that a resumed run goes on with it.",
)
PER_PROMPT = _number(
    "PPO-003",
    "per_prompt",
    "generation.per_prompt",
    "num_generations",
    1,
    title="Answers per prompt",
    description="Number of answers that are generated for each prompt.",
    because="the value head says what is expected of a prompt, so answers are not compared with each other",
    source=f"{_DETAILS}",
    accepts=(1, 16),
    above=1,
    whole=True,
    most=1024,
    watch="reward, reward_std: the reward rises; where prompts are few, more answers to each make it smoother",
    page="Answers to a prompt: how many are written in one generation.\n\n"
    "It is 1. Other methods need a group, because an answer is as good as it is better than the others; PPO compares "
    "it with what its value head had expected.",
)
PASSES = _number(
    "PPO-004",
    "answer_passes",
    "generation.passes",
    "answer_passes",
    4,
    title="PPO epochs",
    description="Number of passes over the answers of one generation batch.",
    because="answers cost time to write, so each is learned from several times; in more passes they grow too old",
    source=f"docs/rule-books/001.md, Anti-pattern 7; {_DETAILS}",
    accepts=(1, 4),
    above=1,
    whole=True,
    most=4,
    watch="approx_kl, clip_fraction: both stay small; above 0.3 of tokens clipped, lower `alignment.generation.passes`",
    page="Passes over the answers: how often those of a generation are learned from.\n\n"
    "It is 4, the most that rule book 001 allows. More passes learn from answers that the policy would no longer "
    "write; the clipped ratio then gives most tokens no gradient, and the rest is noise. More than 4 are refused.",
)
MINIBATCHES = _number(
    "PPO-005",
    "updates",
    "generation.updates",
    "minibatches",
    1,
    title="Minibatches",
    description="Number of optimizer steps per pass over a generation batch.",
    because="every step learns from all answers of its generation",
    source=f"{_DETAILS}",
    accepts=(1, 16),
    above=1,
    whole=True,
    most=64,
    watch="clip_fraction, reward: smooth; more minibatches of older answers make both jump",
    page="Minibatches: among how many optimizer steps each pass over the answers is shared.\n\n"
    "It is 1: a generation has as many answers as the global batch, and each pass over them is one step. With more, a "
    "generation has as many global batches. Checkpoints are saved between generations alone.",
)
CLIP_RANGE = _number(
    "PPO-006",
    "clip_range",
    "clip_range",
    "clip_range",
    0.2,
    title="Clipping",
    description="Clipping range of the ratio between new and old token probabilities.",
    because="value of the paper",
    source=_PPO,
    accepts=(0.1, 0.3),
    most=1,
    closed=False,
    watch="clip_fraction: 0 in the first step of a generation, below 0.3 in the last; if it is above, lower "
    "`train.learning_rate`",
    page="Clipping: the ratio of a token's probabilities, new to old, outside of which a step gains nothing.\n\n"
    "It is 0.2: between 0.8 and 1.2. Estimates of the value head are clipped to 0.2 around those of the generation, "
    "too. In the first step of a generation the ratio is 1: anything else means that answers are scored otherwise "
    "than they were written.",
)
SMOOTHING = _number(
    "PPO-007",
    "gae_lambda",
    "gae_lambda",
    "gae_lambda",
    0.95,
    title="Lambda",
    description="Lambda of generalized advantage estimation: 1 credits each token with the full reward, 0 only with "
    "the next value estimate.",
    because="",
    formula="lambda of answers",
    source=f"{_GAE}; {_DETAILS}; VC-PPO (arXiv 2503.01491, 2025); Open-Reasoner-Zero (arXiv 2503.24290, 2025); "
    f"{_CHOICE} (the length from which it is 1)",
    accepts=(0.9, 1.0),
    most=1,
    watch="value_loss, reward: value_loss falls; if the reward is too noisy to rise, lower `alignment.gae_lambda`",
    page="Lambda of the advantages: 1 credits every token with the whole reward, 0 with the next estimate alone.\n\n"
    "It is 0.95 where `alignment.generation.max_new_tokens` is below 500, and 1 from there on; rewards are not "
    "discounted. With 0.95 a token n before the end is credited with 0.95^n of the reward directly: 36% at 20 tokens, "
    "0.6% at 100, nothing at 500. The rest comes through the value head, which begins with 0 for every token, so that "
    "a badly trained one makes long answers collapse (VC-PPO, arXiv 2503.01491). 1 does not depend on it and is "
    "noisier; PPO with a lambda of 1 trained long chains of thought (Open-Reasoner-Zero, arXiv 2503.24290).",
)
VALUE_WEIGHT = _number(
    "PPO-008",
    "value_weight",
    "value_weight",
    "value_weight",
    0.1,
    title="Weight of the value loss",
    description="Weight of the value loss relative to the policy loss.",
    because="both share one model, and the policy's part leads",
    source=_DETAILS,
    accepts=(0.05, 1.0),
    most=10,
    closed=False,
    watch="value_loss, policy_loss: value_loss falls; if it stays high, raise `alignment.value_weight`",
    page="Weight of the value loss: how much the value head's errors move the weights that it shares.\n\n"
    "It is 0.1. The head is one row on the policy's last hidden states, so that no second model is kept; it begins "
    "with 0 for every token and learns in fp32.",
)
ENDING = _number(
    "PPO-009",
    "missing_eos_penalty",
    "missing_eos_penalty",
    "missing_eos_penalty",
    1.0,
    title="Missing EOS penalty",
    description="Amount subtracted from the reward of an answer that reaches the maximum length without an "
    "end-of-turn token.",
    because="an answer that is cut off is no answer",
    source=_DETAILS,
    accepts=(0.0, 10.0),
    most=100,
    watch="completions/clipped_ratio, completions/mean_length: fewer answers are cut; if more are, raise "
    "`alignment.missing_eos_penalty` or `alignment.generation.max_new_tokens`",
    page="Penalty of an open end: what an answer loses that is cut at `alignment.generation.max_new_tokens`.\n\n"
    "It is 1. Functions judge a cut answer like any other; without a penalty the model learns to go on for ever "
    "where that earns more. `reward` in the logs is without it.",
)

DRAWN_AT = replace(
    TEMPERATURE,
    id="PPO-010",
    source="TRL 1.16 trainer/grpo_config.py (temperature); DAPO (arXiv 2503.14476, 2025)",
    watch="entropy, distinct_2: entropy falls slowly; if distinct_2 falls below 0.7 of its start, raise "
    "`alignment.generation.temperature`",
    page="Temperature of generation: what the logits are divided by while answers are written.\n\n"
    "It is 1: answers are then drawn from the very probabilities that are learned. Answers are scored at the same "
    "temperature, and top-p, top-k and penalties are off, so that the ratio of probabilities begins at 1.",
)

_OTHERWISE = (
    "The policy and its value head share one model. The N+ details and TRL up to 1.12 train a second model as "
    "large as the policy, begun from the reward model. One head needs no second model, its gradients and its "
    "optimizer states; the value loss then also moves the weights of the policy, so that its weight is 0.1.",
    "The value head begins with zeros, not with small random numbers: its first estimates are then 0 for every "
    "token, not noise.",
    "Only advantages are whitened. Rewards are not: their scale is yours, and the weight of the KL has its meaning "
    "beside it. Let rewards spread by about 1, because an estimate of the value head may move by 0.2 in a "
    "generation, and would follow rewards of 50 for hundreds of generations.",
    "The variance that whitens advantages divides by the number of tokens, not by one less. A generation has "
    "thousands of tokens, so that both are equal to the fourth digit.",
    "An answer that is cut counts as ended: no estimate of what would follow is added to its reward. A function "
    "has judged the answer as it is, and the value head knows no state behind its last token; "
    "`alignment.missing_eos_penalty` is what a cut answer costs.",
    "Adam's epsilon is 1e-8, not the 1e-5 of the N+ details. A gradient of norm 1 over 1.7 billion weights is "
    "2e-5 for each of them, so that 1e-5 would shrink the steps of most weights, and more of them the larger the "
    "model is.",
    "The learning rate falls along a cosine, as in recipec's other methods, not along a line. Both end at 0, and "
    "we know of no comparison of the two for PPO; set `train.schedule` to change it.",
    "The loss has no entropy bonus, which the paper of PPO has for games and the N+ details leave out: the KL to "
    "the reference keeps answers diverse.",
)

PPO = Method(
    name="ppo",
    title="proximal policy optimization",
    learns="to write answers that earn more reward than its value head had expected",
    full_name="full fine-tuning",
    example="answer",
    elsewhere=("ppo", "rlhf"),
    source=f"{_PPO}; {_DETAILS}",
    task="align",
    alignment="ppo",
    means="proximal policy optimization: answers scored by rewards, with a value head for the credit of each token",
    section="prompts",
    formats=("prompts",),
    kinds=("prompts",),
    after=("sft",),
    module="transformers",
    trainer="Trainer",
    config="PPOConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="transformers",
    judge="reward",
    passes=(_REFERENCE, _POLICY),
    loss="clipped",
    loss_outputs=("log_probs", "entropy"),
    block_tokens=None,
    packs="never",
    packs_because="answers are written while training, so there is nothing to pack before",
    unread={},
    truncates=False,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="the prompts of a generation are taken in a random order, once for all passes over its answers",
    unread_arguments=(
        "train_sampling_strategy",
        *("dataloader_num_workers", "dataloader_pin_memory"),
        *("dataloader_prefetch_factor", "dataloader_persistent_workers", "dataloader_multiprocessing_context"),
    ),
    precomputes="",
    drops_dropout=False,
    keeps_recomputation=True,
    cached_bytes=0,
    copied_bytes=0,
    repeats="",
    adaptations=("lora", "full"),
    adaptations_because="a value head on a quantized base was not run",
    preferred=("lora", "full"),
    preferred_because="a reward teaches few bits for each answer, which small adapters hold",
    learning_rate=(
        Default(
            1e-5,
            "ten times the lower rates of full fine-tuning, as adapters take",
            _LORA,
            (1e-6, 1e-4),
            adaptations=("lora",),
        ),
        Default(3e-6, "rate of the N+ details for 1B to 7B parameters", _DETAILS, (5e-7, 5e-6), adaptations=("full",)),
    ),
    warmup=(Default(0.03, "a few steps, while the value head knows nothing yet", _CHOICE, accepts=(0.0, 0.1)),),
    epochs=(Default(1, "the answers of a generation are learned from several times", _CHOICE, accepts=(1, 20)),),
    global_batch=(
        Default(128, "answers enough that chance does not lead a step; the N+ details take 512", _DETAILS, (16, 1024)),
    ),
    weight_decay=(Default(0.0, "rewards decide how far weights move", _DETAILS, accepts=(0.0, 0.1)),),
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
        Default(0.0, "dropout would count as a change of the policy: the ratio would begin away from 1", _DETAILS),
    ),
    own=(
        BETA,
        TARGET_KL,
        PER_PROMPT,
        MAX_NEW_TOKENS,
        DRAWN_AT,
        PASSES,
        MINIBATCHES,
        CLIP_RANGE,
        SMOOTHING,
        VALUE_WEIGHT,
        ENDING,
    ),
    acts=(),
    acts_metrics=(),
    metrics=(
        *("reward", "reward_std", "kl", "kl_weight", "entropy", "clip_fraction", "approx_kl", "policy_loss"),
        *("value_loss", "distinct_2", "completions/clipped_ratio", "completions/mean_length"),
        *(OBJECTIVE, "eval_reward", "eval_kl", "eval_clipped_ratio"),
    ),
    proof=("reward_rises",),
    otherwise=_OTHERWISE,
)
