"""Combinations that bottleneck adapters are known not to work in."""

from __future__ import annotations

from recipec.axes.adaptations import BOTTLENECKS
from recipec.rules.combination import BadCombination

BEHIND_MODULES = (
    BadCombination(
        "BAD-170",
        "bottleneck adapters on a mixture of experts",
        "an adapter stands behind the last linear module of a feed-forward block, and the experts of such a block are "
        "fused parameters without one",
        "transformers 5.23 models/qwen3_moe/modeling_qwen3_moe.py (Qwen3MoeExperts)",
        'set `train.adaptation = "lora"`, which adapts experts too',
        lambda f: f.adaptation.trains == BOTTLENECKS and f.moe,
    ),
    BadCombination(
        "BAD-171",
        "bottleneck adapters in a stage that another one starts from",
        "they cannot be merged, because of the activation between their products: the next stage would start without "
        "them",
        "Houlsby adapters (arXiv 1902.00751, 2019, section 2.1)",
        "train them in the last stage, or set `train.adaptation` of the stages to another",
        lambda f: f.adaptation.trains == BOTTLENECKS and f.followed,
    ),
)
