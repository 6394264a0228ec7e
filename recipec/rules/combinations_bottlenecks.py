"""Combinations that bottleneck adapters are known not to work in."""

from __future__ import annotations

from recipec.axes.adaptations import BEHIND, BOTTLENECKS, FUSIONS
from recipec.axes.strategies import DEEPSPEED, TORCH_FSDP
from recipec.rules.combination import BadCombination

BEHIND_MODULES = (
    BadCombination(
        "BAD-170",
        "bottleneck adapters on a mixture of experts",
        "an adapter stands behind the last linear module of a feed-forward block, and the experts of such a block are "
        "fused parameters without one",
        "transformers 5.23 models/qwen3_moe/modeling_qwen3_moe.py (Qwen3MoeExperts)",
        'set `train.adaptation = "lora"`, which adapts experts too',
        lambda f: f.adaptation.trains in BEHIND and f.moe,
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
    BadCombination(
        "BAD-172",
        "AdapterFusion with sharded gradients",
        "its penalty is added to whole gradients behind the backward pass, and the mix was run on one device and with "
        "DDP alone",
        "AdapterFusion (arXiv 2005.00247, 2021, section 3.2); recipec's choice (whole gradients)",
        'set `train.strategy = "ddp"`, or leave it out',
        lambda f: f.adaptation.trains == FUSIONS and f.strategy.engine in (TORCH_FSDP, DEEPSPEED),
    ),
    BadCombination(
        "BAD-173",
        "AdapterFusion in fp16",
        "the penalty is added to gradients behind the backward pass, where those of fp16 are still scaled unless they "
        "were clipped",
        "transformers 5.23 trainer.py (on_pre_optimizer_step stands behind clipping, which unscales)",
        'set `train.precision = "fp32"`, or use a GPU with bf16',
        lambda f: f.adaptation.trains == FUSIONS and f.precision == "fp16",
    ),
)
