"""The optimizers that an emitted train.py can name."""

from __future__ import annotations

import torch
from torch import nn

SMALLEST_8BIT = 4096  # parameters below it keep fp32 states (bitsandbytes min_8bit_size)
BLOCK = 256  # 8-bit state values per fp32 absmax


def optimizer_of(model: nn.Module, name: str) -> torch.optim.Optimizer:
    """Fused AdamW, or its 8-bit forms."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if name == "adamw":
        return torch.optim.AdamW(parameters, fused=True)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return EightBitAdam(parameters, embeddings, paged=name.startswith("paged"))


class EightBitAdam(torch.optim.Optimizer):
    """bitsandbytes' AdamW8bit as far as memory goes; its kernel updates in place."""

    def __init__(self, parameters: list[nn.Parameter], embeddings: set[int], paged: bool) -> None:
        super().__init__(parameters, {})
        self.embeddings = embeddings  # transformers keeps their states in fp32
        self.paged = paged  # states live in managed memory, which is not the allocator's

    def step(self, closure: None = None) -> None:
        """Make the states on the first call."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if not self.state[parameter] and not self.paged:
                    self.state[parameter] = self._state(parameter)

    def _state(self, parameter: nn.Parameter) -> dict[str, torch.Tensor]:
        count = parameter.numel()
        if id(parameter) in self.embeddings or count < SMALLEST_8BIT:
            return {name: torch.empty(count, dtype=torch.float32) for name in ("state1", "state2")}
        bytes_ = {name: torch.empty(count, dtype=torch.uint8) for name in ("state1", "state2")}
        return bytes_ | {name: torch.empty(-(-count // BLOCK)) for name in ("absmax1", "absmax2")}
