"""What linear modules keep of their inputs for the backward pass, with adapters and without, in bytes per token."""

from __future__ import annotations

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import LoraShape


def kept_inputs(features: int, modules: tuple[str, ...], lora: LoraShape | None, path: CodePath) -> int:
    """What a group of linear modules keeps of its common input."""
    if lora is None:
        return features * path.compute * (len(modules) if path.residual > path.compute else 1)
    adapted = adapted_modules(modules, lora)
    frozen = path.compute * features if path.saves_frozen_inputs else 0
    if not adapted:
        return frozen
    shared = frozen if lora.dropout else path.compute * features
    kept = path.adapter_copy * features * adapted if path.adapter_copy else shared
    return kept + dropped(features, adapted, lora, path) + ranks_kept(adapted, lora, path)


def adapted_modules(modules: tuple[str, ...], lora: LoraShape | None) -> int:
    """How many of `modules` carry an adapter."""
    if lora is None:
        return 0
    return sum(map(lora.adapts, modules))


def keeps_output(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> bool:
    """Whether attention's output projection keeps its input as it is: an adapter may keep another copy, or none."""
    if lora is None or path.saves_frozen_inputs > 0:
        return True
    adapted = adapted_modules((architecture.modules.output,), lora) > 0
    return adapted and not path.adapter_copy and not lora.dropout


def dropped(features: int, adapted: int, lora: LoraShape | None, path: CodePath) -> int:
    """A mask per adapted input; where the input was shared, also a dropped copy of it."""
    if lora is None or not lora.dropout:
        return 0
    return adapted * features * (path.dropout_mask + (0 if path.adapter_copy else path.compute))


def ranks_kept(adapted: int, lora: LoraShape | None, path: CodePath) -> int:
    """What adapters keep between their two matrices."""
    return adapted * (lora.rank if lora else 0) * (path.adapter_copy or path.compute)
