"""What enters layers beside the states of the layer below, in bytes: slices of a second embedding, and keys and values
that later layers borrow.

The terms follow the operations of transformers 5.23 `models/gemma4/modeling_gemma4.py` (project_per_layer_inputs,
Gemma4RMSNorm, KVSharingDict) and were read off simulated steps, 2026-11-28.
"""

from __future__ import annotations

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.modules import kept_inputs
from recipec.estimate.workload import LoraShape

FP32 = 4
NORMED = 2  # fp32 copies that are live while the slices are normalized
BACK = 4  # the same while their norm runs backward


class Entering(Struct, frozen=True):
    """Bytes of a pass."""

    held: float = 0.0  # the slices, while layers run
    borrowed: float = 0.0  # keys and values, which wait for the layers that borrow them
    making: float = 0.0  # while the slices are made
    saved: float = 0.0  # of how they were made, for the backward pass
    gradients: float = 0.0  # of slices, keys and values, while layers run backward
    unmaking: float = 0.0  # while what made the slices runs backward


def entering(
    architecture: Architecture, lora: LoraShape | None, path: CodePath, tokens: int, recomputes: bool
) -> Entering:
    """Of `tokens`. Where layers are recomputed, PEFT gives the first embedding a gradient, and so the slices."""
    features = architecture.slices
    slices, borrowed = path.residual * features, 2 * path.compute * _borrowed(architecture)
    made = path.compute * features
    graded = lora is None or recomputes
    saved = 0
    if graded and features:
        saved = FP32 * features * (2 if lora is None else 1) + FP32 * architecture.num_layers
        saved += kept_inputs(architecture.hidden_size, architecture.beside_modules, lora, path)
    return Entering(
        held=tokens * slices,
        borrowed=tokens * borrowed,
        making=tokens * (slices + made + NORMED * FP32 * features),
        saved=tokens * saved,
        gradients=tokens * (slices * graded + borrowed),
        unmaking=tokens * BACK * FP32 * features * graded,
    )


def _borrowed(architecture: Architecture) -> int:
    """Features of the keys that other layers borrow: of each kind those of one layer."""
    kinds = (kind for kind, _ in architecture.kinds if kind.borrows)
    return sum(architecture.attending_in(kind).kv_size for kind in kinds)


def kept_by_gate(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> int:
    """Bytes per token that a layer keeps of its gate, beside its norm: its inputs, and the gate before and behind its
    activation."""
    inputs = architecture.layer_inputs
    if inputs is None:
        return 0
    products = kept_inputs(architecture.hidden_size, (inputs.gate,), lora, path)
    products += kept_inputs(inputs.features, (inputs.output,), lora, path)
    return products + path.compute * inputs.features * (2 if lora is None else 1)
