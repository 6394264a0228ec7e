"""Pretraining: random weights with the architecture of a model learn raw text."""

from recipec.axes.hyperparameters import Default
from recipec.axes.method import Method, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters"
_GPT3, _LLAMA = "GPT-3 (arXiv 2005.14165, 2020)", "LLaMA (arXiv 2302.13971, 2023)"
_LLAMA3, _PYTHIA = "Llama 3 (arXiv 2407.21783, 2024)", "Pythia (arXiv 2304.01373, 2023)"

PRETRAIN = Method(
    name="pretrain",
    title="pretraining",
    learns="every token of the text",
    full_name="full training",
    example="sequence",
    elsewhere=("pt", "pretraining"),
    source="TRL 1.16 trainer/sft_trainer.py",
    task="pretrain",
    alignment="",
    means="pretraining from random weights on raw text",
    section="train",
    formats=("text",),
    kinds=("text",),
    after=(),
    module="trl",
    trainer="SFTTrainer",
    config="SFTConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=True,
    generator="",
    judge="",
    passes=(Pass(model="policy", sequences=1, gradient=True, gives="tokens"),),
    loss="supervised",
    loss_outputs=("log_probs", "entropy", "is_top1"),
    block_tokens=4096,
    packs="blocks",
    packs_because="documents are joined and cut into full blocks, so no padding is needed; documents of one block "
    "attend to each other",
    unread={},
    truncates=True,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="documents are cut into blocks of one length; without packing, short ones are padded",
    unread_arguments=(),
    precomputes="",
    drops_dropout=False,
    keeps_recomputation=True,
    cached_bytes=45,
    copied_bytes=0,
    repeats="",
    adaptations=("full",),
    adaptations_because="random weights must all be trained",
    preferred=("full",),
    preferred_because="training starts from random weights, so every weight is trained",
    learning_rate=(
        Default(
            6e-4,
            "published for models of this size: GPT-3 125M, Pythia 160M",
            f"{_GPT3}; {_PYTHIA}",
            (1e-4, 1e-3),
            adaptations=("full",),
            params_below=0.3e9,
        ),
        Default(
            3e-4,
            "published for models of this size: Pythia 1B, LLaMA 7B and 13B",
            f"{_TABLE}; {_PYTHIA}; {_LLAMA}",
            (1e-4, 3e-4),
            adaptations=("full",),
            params_below=20e9,
        ),
        Default(
            1.5e-4,
            "published for models of this size: LLaMA 65B, Llama 3 70B",
            f"{_TABLE}; {_LLAMA}; {_LLAMA3}",
            (1e-4, 3e-4),
            adaptations=("full",),
            params_below=100e9,
        ),
        Default(
            8e-5,
            "published for a model of this size: Llama 3 405B",
            _LLAMA3,
            accepts=(6e-5, 3e-4),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(
            0.01,
            "pretraining runs are long, so a small share is enough, as in Pythia",
            f"{_TABLE}; {_PYTHIA}",
            (0.01, 0.05),
        ),
    ),
    epochs=(Default(1, "each document is seen once", _TABLE, accepts=(1, 3)),),
    global_batch=(),  # counted in tokens: rules/pretraining.py
    weight_decay=(
        Default(
            0.1,
            "usual for training on raw text, as in GPT-3 and LLaMA",
            f"{_TABLE}; GPT-3 (arXiv 2005.14165, 2020); LLaMA (arXiv 2302.13971, 2023)",
            accepts=(0.01, 0.1),
        ),
    ),
    adam_beta2=(
        Default(
            0.95,
            "gradients of random weights shrink fast, so their average must be short, as in GPT-3 and LLaMA",
            f"{_GPT3}; {_LLAMA}",
        ),
    ),
    lora_rank=(),
    lora_alpha_most=0,
    lora_dropout=(),
    own=(),
    acts=(),
    acts_metrics=(),
    metrics=("mean_token_accuracy", "eval_mean_token_accuracy", "entropy", "perplexity"),
    proof=("loss_halves",),
)
