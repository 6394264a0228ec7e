"""What adapters on fused experts cost beside their own parameters: PEFT builds the adapted weights in every forward.

Source: PEFT 0.21.2 `lora.ParamWrapper` (W + s BA of all experts, one parameter at a time), transformers 5.23
`grouped_mm_experts_forward`, whose backward needs those weights, its inputs and a gradient of all of the weights.
"""

from __future__ import annotations

from msgspec import Struct

from recipec.catalog.architecture import Architecture, ExpertShape
from recipec.catalog.layer_parts import MXFP4
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import LoraShape

# A weight in 4 bits and, for each 32 weights, a scale in 8 (OCP Microscaling Formats v1.0).
MXFP4_BITS = 4 + 8 / 32
MXFP4_CHUNK_BYTES = 32768 * 1024 * 32 * 2  # of 16-bit weights that transformers 5.23 dequantizes at a time


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


def expert_weights(architecture: Architecture) -> int:
    """Weights of all experts, without biases: what a checkpoint may store in another way than the model has them."""
    return architecture.sparse_layers * sum(
        count * inputs * out for _, count, inputs, out in architecture.expert_shapes()
    )


def published_bytes(architecture: Architecture) -> int:
    """The files of the checkpoint: 16 bits for each parameter, but experts in MXFP4."""
    if architecture.moe is None or architecture.moe.stored != MXFP4:
        return 2 * architecture.params
    experts = expert_weights(architecture)
    return 2 * (architecture.params - experts) + round(experts * MXFP4_BITS / 8)


def converted_bytes(architecture: Architecture) -> int:
    """In 16 bits, the weights that reading the checkpoint makes new tensors of."""
    return 2 * expert_weights(architecture) if architecture.moe and architecture.moe.stored else 0


def working_bytes(architecture: Architecture) -> int:
    """What converting the largest tensor takes beside all that are converted already.

    Fusing holds the parts stacked beside the whole. MXFP4 is multiplied in fp32 in chunks, and the result transposed
    (transformers 5.23 integrations/mxfp4.py; 1,659 MiB at the peak for 864 MiB of experts in tensors of up to 192 MiB,
    2026-11).
    """
    largest = max((2 * count * inputs * out for _, count, inputs, out in architecture.expert_shapes()), default=0)
    if architecture.moe is None or not architecture.moe.stored:
        return 0
    return largest + (3 * min(largest, MXFP4_CHUNK_BYTES) if architecture.moe.stored == MXFP4 else 0)
