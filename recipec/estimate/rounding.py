"""Products of integers: what bitsandbytes' 8-bit layers take beside inputs and results, in memory and in traffic.

Read in bitsandbytes 0.50.2, `autograd/_functions.py` (MatMul8bitLt) and `backends/cuda/ops.py`, 2026-11: an input is
cast to fp16, searched for outliers and rounded; the products are summed in 32 bits, scaled to fp16 and cast to the
compute type; backward the weights are dequantized, and the product is one of the compute type.
"""

from __future__ import annotations

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.modules import kept_inputs
from recipec.estimate.workload import LoraShape

ROUNDED_BYTES = 1  # of a feature of an input, while its product is made
SCALED_BYTES = 4 + 2 + 2  # of a feature of a result: the sum, in fp16, in the compute type
# Widths of 2 bytes that are live at once in a feed-forward block: an activation and the scaling of one of two
# projections, or the scaling of one projection that is twice as wide.
SCALED_WIDTHS = {False: 1 + SCALED_BYTES // 2, True: SCALED_BYTES}
# Bytes that kernels move in a forward, beside what a product of the compute type reads and writes. Of a feature of an
# input: cast to fp16, sizes, comparison, two searches, rounding, and the rounded one is read; of a feature of a result:
# the sum is written, scaled, cast, and the few columns of outliers, multiplied in the compute type, are added.
# Integers multiply up to twice as fast as 16 bits on most GPUs; nobody measured that for recipec, so it is left out.
# BLOOM-176B answers 15% to 23% slower so (huggingface.co/blog/hf-bitsandbytes-integration, 2022).
INPUT_TRAFFIC = 4 + 4 + 3 + 1 + 1 + 3 + 1
RESULT_TRAFFIC = 4 + 6 + 4 + 4
WEIGHT_TRAFFIC = 1 + 2 + 2 + 2 + 2  # backward, of a weight: read, written, scaled in place, and read by the product
LAUNCHES = 18  # operations that Python issues in a forward of one product, beside the one of a plain product


def one_projection(architecture: Architecture) -> bool:
    """Whether gate and up are one."""
    return len(architecture.modules.mlp_in) == 1 and architecture.gated_mlp


def inner_scaled(architecture: Architecture, inner: int, lora: LoraShape | None, path: CodePath) -> int:
    """What a feed-forward block holds per token while its widest result is scaled: forward, and when it is recomputed.

    Of two projections the first has given its result and the activation by then.
    """
    hidden, modules = architecture.hidden_size, architecture.modules
    wide, before = (2, 0) if one_projection(architecture) else (1, 2 * architecture.gated_mlp)
    results = inner * (wide * SCALED_BYTES + before * path.outputs)
    return kept_inputs(hidden, modules.mlp_in, lora, path) + ROUNDED_BYTES * hidden + results


def rounding_traffic(architecture: Architecture, path: CodePath) -> float:
    """Bytes per token that the products of all layers move in a forward because they round their inputs."""
    if not path.rounds_inputs:
        return 0.0
    each = ((layers, i, o) for layers, shapes in architecture.linear_groups for _, i, o in shapes)
    return float(sum(layers * (i * INPUT_TRAFFIC + o * RESULT_TRAFFIC) for layers, i, o in each))


def rounding_launches(architecture: Architecture, path: CodePath) -> float:
    """Operations that they take in a forward."""
    products = sum(layers * len(shapes) for layers, shapes in architecture.linear_groups)
    return float(LAUNCHES * products * path.rounds_inputs)
