"""Pretraining: random weights with the architecture of a model learn raw text."""

from dataclasses import replace

from recipec.axes.method import Default
from recipec.axes.methods.continue_pretrain import CONTINUE_PRETRAIN

_TABLE = "docs/rule-books/001.md, Key hyperparameters"
_GPT3, _LLAMA = "GPT-3 (arXiv 2005.14165, 2020)", "LLaMA (arXiv 2302.13971, 2023)"
_LLAMA3, _PYTHIA = "Llama 3 (arXiv 2407.21783, 2024)", "Pythia (arXiv 2304.01373, 2023)"

PRETRAIN = replace(
    CONTINUE_PRETRAIN,
    name="pretrain",
    title="pretraining",
    full_name="pretraining",
    task="pretrain",
    means="learn from raw text alone, from random weights",
    random_weights=True,
    block_tokens=4096,
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
            params_below=0.3e9,
        ),
        Default(
            3e-4,
            "published for models of this size: Pythia 1B, LLaMA 7B and 13B",
            f"{_TABLE}; {_PYTHIA}; {_LLAMA}",
            (1e-4, 3e-4),
            params_below=20e9,
        ),
        Default(
            1.5e-4,
            "published for models of this size: LLaMA 65B, Llama 3 70B",
            f"{_TABLE}; {_LLAMA}; {_LLAMA3}",
            (1e-4, 3e-4),
            params_below=100e9,
        ),
        Default(8e-5, "published for a model of this size: Llama 3 405B", _LLAMA3, accepts=(6e-5, 3e-4)),
    ),
    warmup=(
        Default(
            0.01,
            "pretraining runs are long, so a small share is enough, as in Pythia",
            f"{_TABLE}; {_PYTHIA}",
            (0.01, 0.05),
        ),
    ),
    global_batch=(),  # counted in tokens: rules/pretraining.py
    adam_beta2=(
        Default(
            0.95,
            "gradients of random weights shrink fast, so their average must be short, as in GPT-3 and LLaMA",
            f"{_GPT3}; {_LLAMA}",
        ),
    ),
)
