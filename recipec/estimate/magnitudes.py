"""What DoRA costs beside its parameters: PEFT builds W + BA of a module in every forward, to measure its outputs.

Source: PEFT 0.21.2 `lora/dora.py`. BA is a product with a unit matrix (inputs x inputs) of the adapter's type; W and BA
are cast to the type of the input, scaled, added and measured. The graph keeps the unit matrix until the module's
forward ends, and of every token the outputs of the base and of the adapter. One module at a time.
"""

from __future__ import annotations

from collections.abc import Collection

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import LoraShape

# Bytes moved for a module in a forward, by element of the unit matrix and of the weight: each is written, cast,
# multiplied, scaled, added and read again, in fp32 and in 16 bits.
UNIT_TRAFFIC, WEIGHT_TRAFFIC = 12, 38
LAUNCHES = 16  # operations that Python issues for it


def kept_outputs(
    architecture: Architecture, modules: Collection[str], lora: LoraShape | None, path: CodePath, of_base: int
) -> int:
    """Bytes per token kept for the gradients of the magnitudes: the outputs of base, `of_base` each, and adapter."""
    return (of_base + path.compute) * sum(outputs for _, outputs in _measured(architecture, modules, lora))


def added_outputs(architecture: Architecture, modules: Collection[str], lora: LoraShape | None, path: CodePath) -> int:
    """Bytes per token while the widest of the modules scales and adds its outputs, in the type of the magnitudes."""
    widest = max((outputs for _, outputs in _measured(architecture, modules, lora)), default=0)
    return 3 * path.vector * widest


def measured_modules(architecture: Architecture, lora: LoraShape | None) -> list[tuple[int, int]]:
    """Inputs and outputs of the linear modules of a layer whose weights are measured."""
    return _measured(architecture, [name for name, _, _ in architecture.linear_shapes()], lora)


def _measured(architecture: Architecture, modules: Collection[str], lora: LoraShape | None) -> list[tuple[int, int]]:
    if lora is None or not lora.magnitudes:
        return []
    return [(i, o) for name, i, o in architecture.linear_shapes() if name in modules and lora.adapts(name)]


def measuring(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> int:
    """Bytes while the weights of the largest module are measured, whatever the batch."""
    return max((_of_module(*shape, path) for shape in measured_modules(architecture, lora)), default=0)


def _of_module(inputs: int, outputs: int, path: CodePath) -> int:
    unit, weight = inputs * inputs, inputs * outputs
    adapter = path.vector
    cast = path.compute if adapter > path.compute else 0
    product = (adapter + cast) * unit + path.compute * weight
    at = 4 if path.adapter_copy else path.compute  # the type of the adapter's input
    copies = 4 if at > path.compute or path.quantized else 3  # W, BA, BA scaled and their sum
    return max(product, path.compute * unit + copies * at * weight)
