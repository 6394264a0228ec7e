"""What adapters on fused experts cost beside their own parameters: PEFT builds the adapted weights in every forward.

Source: PEFT 0.21.2 `lora.ParamWrapper` (W + s BA of all experts, one parameter at a time), transformers 5.23
`grouped_mm_experts_forward`, whose backward needs those weights, its inputs and a gradient of all of the weights.
"""

from __future__ import annotations

from msgspec import Struct

from recipec.catalog.architecture import Architecture, ExpertShape
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import LoraShape


class Built(Struct, frozen=True):
    """Bytes per rank in one layer with experts, whatever the batch; all 0 without adapters on experts."""

    weights: int = 0  # the adapted weights, from the forward on until their backward
    down: int = 0  # on top of them in the backward: the gradient of the down projection
    gate_up: int = 0  # later: the gradient of gate and up, less the other weight, which is freed by then
    factors: int = 0  # adapters cast to the weights' type, which the graph keeps

    @property
    def kept(self) -> int:
        """What a layer's forward leaves for its backward."""
        return self.weights + self.factors


def adapted_experts(architecture: Architecture, lora: LoraShape | None) -> tuple[ExpertShape, ...]:
    """The expert parameters of a layer that carry adapters."""
    return tuple(shape for shape in architecture.expert_shapes() if lora and shape[0] in lora.experts)


def built_gradient_flops(architecture: Architecture, lora: LoraShape | None) -> float:
    """Operations per token for the gradients of the built weights, of which those of the adapters are taken."""
    weights = sum(inputs * outputs for _, _, inputs, outputs in adapted_experts(architecture, lora))
    passed = architecture.moe.computed if architecture.moe else 0
    return 2.0 * weights * passed * architecture.sparse_layers


def expert_adapter_params(architecture: Architecture, lora: LoraShape | None) -> int:
    """Adapter parameters on the experts of one layer: each expert has a pair of matrices for each parameter."""
    rank = lora.expert_rank if lora else 0
    return sum(count * rank * (inputs + out) for _, count, inputs, out in adapted_experts(architecture, lora))


def built(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> Built:
    """The weights of one layer that are built from adapters."""
    sizes = {shape[0]: path.compute * shape[1] * shape[2] * shape[3] for shape in adapted_experts(architecture, lora)}
    if not sizes or architecture.moe is None:
        return Built()
    gate_up, down = sizes.get(architecture.moe.gate_up, 0), sizes.get(architecture.moe.down, 0)
    gathered = path.weight_shards > 1  # adapters then come in the compute type
    cast = path.compute if path.trained > path.compute and not gathered else 0
    return Built(gate_up + down, down, gate_up - down, cast * expert_adapter_params(architecture, lora))
