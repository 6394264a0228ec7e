"""What IA3 costs: vectors that scale what a module gives, or what the last one of a feed-forward block takes.

Source: PEFT 0.21.2 `ia3/layer.py`. The outputs of a module are multiplied as they are, and the inputs in the type of
the vector; for the gradient of the vector both are kept. The products of the frozen weights keep nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import LoraShape


def scale_params(shapes: Collection[tuple[str, int, int]], mlp_out: str, lora: LoraShape | None) -> int:
    """Numbers in the vectors of modules given as (name, inputs, outputs)."""
    scaled = lora.scaled if lora else ()
    return sum(inputs if name == mlp_out else outputs for name, inputs, outputs in shapes if name in scaled)


def kept_outputs_scaled(
    architecture: Architecture, modules: Collection[str], lora: LoraShape | None, path: CodePath
) -> int:
    """Bytes per token kept of what the modules give, before it is scaled."""
    scaled = lora.scaled if lora else ()
    return path.outputs * sum(
        out for name, _, out in architecture.linear_shapes() if name in scaled and name in modules
    )


class InputsScaled(Struct, frozen=True):
    """Bytes per token of what a feed-forward block's last module takes, around its product with the vector."""

    kept: int  # for the gradient of the vector
    backward: int  # two gradients and the product whose sum is the vector's
    forward: int  # the inputs, before and behind, in the compute type and in the vector's


def inputs_scaled(architecture: Architecture, inner: int, lora: LoraShape | None, path: CodePath) -> InputsScaled:
    """All zero where they are not scaled."""
    if lora is None or architecture.modules.mlp_out not in lora.scaled:
        return InputsScaled(0, 0, 0)
    vector = path.vector
    beside = 2 * path.residual * architecture.hidden_size  # norm and residual are through by then
    return InputsScaled(vector * inner, 3 * vector * inner, 2 * (path.compute + vector) * inner - beside)
