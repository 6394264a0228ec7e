"""Continued pretraining: a trained model learns a domain from its raw text."""

from dataclasses import replace

from recipec.axes.method import Default
from recipec.axes.methods.sft import SFT

_TABLE = "docs/rule-books.md, 001, Key Hyperparameter Rules"

CONTINUE_PRETRAIN = replace(
    SFT,
    name="continue-pretrain",
    title="continued pretraining",
    learns="every token of the text",
    full_name="all weights",
    task="continue-pretrain",
    means="learn a domain from its raw text",
    formats=("text",),
    kinds=("text",),
    block_tokens=2048,
    packs="blocks",
    packs_because="text fills every block, without padding",
    sampling="random",
    sampling_because="blocks are all of one length",
    preferred=("full", "lora", "qlora"),
    preferred_because="new knowledge moves every weight",
    learning_rate=(
        Default(
            1e-4,
            "the low end of the usual LoRA range, since much text is seen",
            _TABLE,
            accepts=(1e-4, 3e-4),
            adaptations=("qlora",),
        ),
        Default(
            1e-4,
            "the low end of the usual LoRA range, since much text is seen",
            _TABLE,
            accepts=(1e-4, 5e-4),
            adaptations=("lora",),
        ),
        Default(2e-5, "usual start for training all weights on more text", _TABLE, (1e-5, 5e-5), adaptations=("full",)),
    ),
    warmup=(Default(0.03, "usual share for continued pretraining", _TABLE, accepts=(0.01, 0.05)),),
    epochs=(Default(1, "one pass over the text", _TABLE, accepts=(1, 3)),),
    global_batch=(
        Default(
            128,
            "packed blocks of fewer than 100,000 texts, so that enough steps are left",
            f"{_TABLE}; how large is our choice",
            (32, 4096),
            sizes=("<1K", "1K-10K", "10K-100K"),
        ),
        Default(512, "packed blocks of a large corpus", _TABLE, accepts=(32, 4096)),
    ),
    weight_decay=(
        Default(
            0.1,
            "the habit of pretraining, as GPT-3 and LLaMA",
            f"{_TABLE}; arXiv 2005.14165; arXiv 2302.13971",
            accepts=(0.01, 0.1),
        ),
    ),
    lora_rank=(Default(64, "new knowledge needs capacity", f"{_TABLE}, Anti-Pattern 2", accepts=(8, 64)),),
    lora_dropout=(
        Default(0.0, "each text is seen about once, so there is nothing to regularize", _TABLE, accepts=(0.0, 0.3)),
    ),
)
