"""The optimizers that an emitted train.py can name, as Trainer makes them (transformers 5.23, bitsandbytes 0.50)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from recipec.axes.optimizers import PAGED
from recipec.simulate.step import trained

DECAY = 0.01  # any but zero takes the same path
SMALLEST_PAGED = 100_000  # values; smaller states stay on the device (bitsandbytes get_state_buffer)


def optimizer_of(model: nn.Module, name: str, decays: bool) -> torch.optim.Optimizer:
    """The optimizer itself, over the two groups that Trainer makes: what decays, and what does not."""
    groups = _groups(model, DECAY if decays else 0.0)
    if name == "adamw":
        return torch.optim.AdamW(groups, fused=True)
    if name == "sgd":
        return torch.optim.SGD(groups, foreach=not any(isinstance(p, DTensor) for p in trained(model)))  # as on a GPU
    if name == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(groups, lr=1e-3, scale_parameter=False, relative_step=False)
    return _bitsandbytes(model, groups, name)


def _groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    from transformers import Trainer

    decaying = set(Trainer.get_decay_parameter_names(None, model))  # type: ignore[arg-type]
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[name in decaying].append(parameter)
    return [{"params": group, "weight_decay": decay * decays} for decays, group in groups.items() if group]


def _bitsandbytes(model: nn.Module, groups: list[dict[str, Any]], name: str) -> torch.optim.Optimizer:
    """With fp32 states for embeddings, as Trainer asks for."""
    from bitsandbytes import optim

    base = optim.Lion if name.startswith("lion") else optim.AdamW
    made = type(base.__name__, (_OnDevice, base), {})
    manager = optim.GlobalOptimManager.get_instance()
    manager.initialize()  # it is one for all simulations
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            manager.register_module_override(module, "weight", {"optim_bits": 32})
    return made(groups, optim_bits=8 if "8bit" in name else 32, is_paged=name in PAGED)


class _OnDevice:
    """A bitsandbytes optimizer on a GPU: its kernels work in place, and paged states are not the allocator's."""

    is_paged: bool

    def fill_qmap(self) -> None:
        self.name2qmap = {name: torch.empty(256) for name in ("dynamic", "udynamic")}

    def get_state_buffer(self, p: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        managed = self.is_paged and p.numel() >= SMALLEST_PAGED
        return torch.empty(0 if managed else p.shape, dtype=dtype)

    def update_step(self, *parameter: Any) -> None:
        """Reads and writes what is there."""
