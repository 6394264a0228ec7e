"""torchao's part of FP8: its own products in plain PyTorch, or linear layers that round where it is not installed."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

LARGEST = 448.0  # of e4m3


def fp8(module, value):
    """What fp8_layers.py of a bundle imports, behind the libraries: these look for torchao themselves."""
    if importlib.util.find_spec("torchao") is None:
        sys.modules["torchao.float8"] = _float8()  # alone: libraries that look for torchao go on not finding it
        return
    import dataclasses

    import torchao.float8

    config = torchao.float8.Float8LinearConfig
    named = config.from_recipe_name
    config.from_recipe_name = staticmethod(lambda name: dataclasses.replace(named(name), emulate=True))


def _float8():
    """The module torchao.float8, as far as bundles use it."""
    made = ModuleType("torchao.float8")
    made.Float8LinearConfig = Float8LinearConfig
    made.convert_to_float8_training = convert_to_float8_training
    return made


class Float8LinearConfig:
    """Scales for every row are all that is known here."""

    @staticmethod
    def from_recipe_name(name):
        if name != "rowwise":
            raise ValueError(f"no stand-in for the recipe {name!r}")
        return Float8LinearConfig()


def convert_to_float8_training(model, *, module_filter_fn=None, config=None):
    """Replace linear layers that pass the filter by ones that round."""
    from torch import nn

    if isinstance(model, nn.Linear):
        return _rounding(model)
    for name, child in [*model.named_modules()]:
        for own, layer in [*child.named_children()]:
            path = f"{name}.{own}" if name else own
            if isinstance(layer, nn.Linear) and (module_filter_fn is None or module_filter_fn(layer, path)):
                setattr(child, own, _rounding(layer))
    return model


def _rounding(layer):
    """The same layer with rounded inputs and weights, through which gradients go as they are."""
    import torch

    class Rounding(torch.nn.Linear):
        def forward(self, given):
            if given.numel() // given.shape[-1] % 16:
                raise ValueError("FP8 products need a multiple of 16 tokens")
            return torch.nn.functional.linear(_rounded(given), _rounded(self.weight), self.bias)

    layer.__class__ = Rounding
    return layer


def _rounded(tensor):
    """The numbers that e4m3 with a scale for every row has."""
    import torch

    scale = tensor.detach().abs().amax(-1, keepdim=True).clamp(min=1e-12) / LARGEST
    found = (tensor.detach() / scale).to(torch.float8_e4m3fn).to(tensor.dtype) * scale
    return tensor + (found - tensor).detach()


PATCHES = {"fp8": ("trl.trainer.sft_trainer", fp8)}
