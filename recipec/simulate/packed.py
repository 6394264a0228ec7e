"""4-bit base weights without quantising: modules that hold fake packed storage of the right size."""

from __future__ import annotations

from typing import Any

import bitsandbytes
import torch
from bitsandbytes.functional import QuantState
from peft.tuners.lora import dora
from torch import nn
from transformers.quantizers.base import get_keys_to_not_convert

BLOCK = 64  # weights per absmax (bitsandbytes default)
NESTED_BLOCK = 256  # absmax values per second-level absmax


class PackedLinear(bitsandbytes.nn.Linear4bit):
    """bitsandbytes' layer around plain uint8 storage: its own parameter class refuses fake tensors."""

    def __init__(self, linear: nn.Linear, kind: str, double_quant: bool, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.compute_dtype, self.compute_type_is_set = dtype, True
        self.support_avx512bf16_for_cpu, self.quant_storage = False, torch.uint8
        self.quant_state = _state(self.in_features, self.out_features, kind, double_quant, dtype)
        self.weight = _weight(self.quant_state, double_quant)
        bias = None if linear.bias is None else nn.Parameter(linear.bias.data, requires_grad=False)
        self.register_parameter("bias", bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """As on a GPU: of a sharded layer, what was gathered has no state yet."""
        self.weight.quant_state = self.quant_state
        return super().forward(inputs)

    def _save_to_state_dict(self, *arguments: Any) -> None:
        """bitsandbytes' own would read the state's values."""
        nn.Module._save_to_state_dict(self, *arguments)


def quantize(model: nn.Module, kind: str, double_quant: bool, dtype: torch.dtype) -> None:
    """Replace every linear module but the head, as transformers does when it loads in 4 bit.

    `kind`: what bitsandbytes calls the base's type, as the recipe does.
    """
    kept = get_keys_to_not_convert(model)
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear and name not in kept:
            model.set_submodule(name, PackedLinear(module, kind, double_quant, dtype))
    dora.dequantize_module_weight = _dequantized
    model.is_loaded_in_4bit = True
    model.quantization_method = "bitsandbytes"


def _dequantized(module: nn.Module) -> torch.Tensor:
    """What PEFT's own returns, which knows bitsandbytes' storage by the name of its class."""
    if not isinstance(module, PackedLinear):
        return module.weight
    return torch.empty(module.out_features, module.in_features, dtype=module.compute_dtype)


def _state(inputs: int, outputs: int, kind: str, double_quant: bool, dtype: torch.dtype) -> QuantState:
    blocks = -(-inputs * outputs // BLOCK)
    common = {"shape": torch.Size((outputs, inputs)), "dtype": dtype, "blocksize": BLOCK, "quant_type": kind}
    code = torch.empty(16)
    if not double_quant:
        return QuantState(absmax=torch.empty(blocks), code=code, **common)
    absmax = torch.empty(-(-blocks // NESTED_BLOCK))
    second = QuantState(absmax=absmax, blocksize=NESTED_BLOCK, code=torch.empty(256), dtype=torch.float32)
    first = torch.empty(blocks, dtype=torch.uint8)
    return QuantState(absmax=first, code=code, offset=torch.empty(()), state2=second, **common)


def _weight(state: QuantState, double_quant: bool) -> nn.Parameter:
    packed = torch.empty((state.shape.numel() + 1) // 2, 1, dtype=torch.uint8)
    weight = nn.Parameter(packed, requires_grad=False)
    weight.quant_state, weight.quant_type, weight.quant_storage = state, state.quant_type, torch.uint8
    weight.compress_statistics, weight.blocksize, weight.bnb_quantized = double_quant, BLOCK, True
    return weight
