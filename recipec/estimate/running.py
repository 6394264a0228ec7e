"""One layer of a pass that saves nothing, outside of training: evaluate.py scores rows, and reads prompts.

There the weights are in the type that is computed in, and adapters in fp32 without autocast (PEFT 0.21.2
`autocast_adapter_dtype`). The terms are those of a pass without gradients in training; peaks of real modules hold them
(tests/estimate/test_running.py).
"""

from __future__ import annotations

from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import kinds_of
from recipec.estimate.codepath import CodePath, code_path
from recipec.estimate.entering import entering
from recipec.estimate.experts import built
from recipec.estimate.magnitudes import measuring
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Layout


def scoring_path(layout: Layout, work: Workload) -> CodePath:
    """The code path of evaluate.py: transformers and PEFT as they load a model, on one GPU."""
    plain = replace(work, autocast=False, adapters="fp32", full_weights="bf16", kbit_fp32_residual=False)
    return code_path(layout.alone, replace(plain, capacity_factor=0.0, fused_kernels=False))


def running_bytes(architecture: Architecture, lora: LoraShape | None, path: CodePath, tokens: int) -> int:
    """What a layer takes of so many tokens beside its weights: the kind of layer that takes most."""
    kinds = kinds_of(architecture, lora, path)
    block, attention = (tokens * max(getattr(each, part) for each in kinds) for part in ("forward", "attention"))
    enters = entering(architecture, lora, path, tokens, False)
    layer = max(max(block + built(architecture, lora, path).kept, attention) + enters.held, enters.making)
    measured = max(tokens * kinds[0].outputs, measuring(architecture, lora, path) - block / 2)
    return round(layer + measured)
