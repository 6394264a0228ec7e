"""8-bit base weights without quantizing: bitsandbytes' layers, whose products allocate what those of a GPU do.

bitsandbytes 0.50 tells fake tensors the result of such a product and nothing of what it takes on the way.
"""

from __future__ import annotations

from typing import Any

import bitsandbytes
import torch
from torch import nn
from transformers.quantizers.base import get_keys_to_not_convert

THRESHOLD = 6.0  # transformers' default of llm_int8_threshold


class RoundedLinear(bitsandbytes.nn.Linear8bitLt):
    """bitsandbytes' layer around plain int8 storage: its own parameter class quantizes when it is moved."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.index, self.state = None, bitsandbytes.MatmulLtState()
        self.state.threshold, self.state.has_fp16_weights = THRESHOLD, False
        stored = torch.empty(linear.weight.shape, dtype=torch.int8)
        self.weight = nn.Parameter(stored, requires_grad=False)
        self.state.CB, self.state.SCB = self.weight.data, torch.empty(linear.out_features)
        bias = None if linear.bias is None else nn.Parameter(linear.bias.data, requires_grad=False)
        self.register_parameter("bias", bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """As on a GPU, in training and without a gradient."""
        return RoundedProduct.apply(inputs, self.weight, self.state.SCB, self.bias)

    def _save_to_state_dict(self, *arguments: Any) -> None:
        """bitsandbytes' own would read the state's values."""
        nn.Module._save_to_state_dict(self, *arguments)


class RoundedProduct(torch.autograd.Function):
    """What `MatMul8bitLt` allocates, in its order; columns of outliers are few and left out."""

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        rows = inputs.reshape(-1, inputs.shape[-1])
        rounded = _rounded(rows.to(torch.float16))
        result = _scaled(rounded, weight, inputs.dtype)
        if bias is not None:
            result.add_(bias)
        ctx.weight, ctx.scales, ctx.shape = weight, scales, inputs.shape
        if ctx.needs_input_grad[0]:
            ctx.inputs = rows  # on the node, out of sight of hooks on saved tensors
        return result.view(*inputs.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        rows = gradient.reshape(-1, gradient.shape[-1]).contiguous()
        weight = ctx.weight.to(rows.dtype, copy=True).mul_(ctx.scales.unsqueeze(1).mul(1 / 127))
        return (rows @ weight).view(ctx.shape), None, None, None


def _rounded(rows: torch.Tensor) -> torch.Tensor:
    """Rows of integers, once it is known where outliers are."""
    rounded = torch.empty_like(rows, dtype=torch.int8)
    outliers = rows.abs() >= THRESHOLD
    del outliers
    return rounded


def _scaled(rounded: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The sums are in 32 bits, what the kernel makes of them in fp16, and the result in the compute type."""
    sums = torch.empty(rounded.shape[0], weight.shape[0], dtype=torch.int32, device=rounded.device)
    return torch.empty_like(sums, dtype=torch.float16).to(dtype)


def quantize(model: nn.Module) -> None:
    """Replace every linear module but the head, as transformers does when it loads in 8 bits."""
    kept = get_keys_to_not_convert(model)
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear and name not in kept:
            model.set_submodule(name, RoundedLinear(module))
    model.is_loaded_in_8bit = True
    model.quantization_method = "bitsandbytes"
