"""Bottleneck adapters as a kind of PEFT adapter: import this file before PEFT loads them.

Behind a linear module stands output + up(relu(down(output))). PEFT has no such kind; with this file it trains, saves,
loads and switches these adapters off like its own.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from peft import PeftConfig
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_PREFIX_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from torch import nn


class PeftType(StrEnum):
    BOTTLENECK = "BOTTLENECK"


@dataclass
class BottleneckConfig(PeftConfig):
    target_modules: list[str] | None = None  # the linear modules with an adapter behind them
    reduction_factor: int = 16  # the width of the model over that of an adapter

    def __post_init__(self) -> None:
        super().__post_init__()
        self.peft_type = PeftType.BOTTLENECK


class BottleneckLayer(nn.Module, BaseTunerLayer):
    """A linear module with adapters behind it, each under its name."""

    adapter_layer_names = ("bottleneck_down", "bottleneck_up")

    def __init__(self, base_layer: nn.Linear, adapter_name: str, config: BottleneckConfig) -> None:
        super().__init__()
        self.base_layer = base_layer
        self.bottleneck_down = nn.ModuleDict()
        self.bottleneck_up = nn.ModuleDict()
        self._active_adapter, self._disable_adapters, self.merged_adapters = adapter_name, False, []
        self.add_adapter(adapter_name, config)

    def add_adapter(self, name: str, config: BottleneckConfig) -> None:
        """Add an adapter that changes nothing yet: `up` begins at 0."""
        features = self.base_layer.out_features
        size = max(1, features // config.reduction_factor)
        self.bottleneck_down[name] = nn.Linear(features, size)
        self.bottleneck_up[name] = up = nn.Linear(size, features)
        nn.init.zeros_(up.weight)
        nn.init.zeros_(up.bias)
        self._move_adapter_to_device_of_base_layer(name)
        self.set_adapter(self.active_adapters, inference_mode=config.inference_mode)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output = self.base_layer(inputs)
        if self.disable_adapters:
            return output
        for name in self.active_adapters:
            if name in self.bottleneck_down:
                output = output + self.change(name, output).to(output.dtype)
        return output

    def change(self, name: str, output: torch.Tensor) -> torch.Tensor:
        """What an adapter adds to the module's output."""
        down = self.bottleneck_down[name]
        return self.bottleneck_up[name](torch.relu(down(output.to(down.weight.dtype))))


class BottleneckModel(BaseTuner):
    prefix = "bottleneck_"
    tuner_layer_cls = BottleneckLayer

    def _create_and_replace(
        self,
        peft_config: BottleneckConfig,
        adapter_name: str,
        target: nn.Module,
        target_name: str,
        parent: nn.Module,
        **kwargs: Any,
    ) -> None:
        if isinstance(target, BottleneckLayer):
            target.add_adapter(adapter_name, peft_config)
            return
        layer = BottleneckLayer(target, adapter_name, peft_config)
        if adapter_name not in self.active_adapters:
            layer.requires_grad_(False)  # one more adapter is not trained by itself
        self._replace_module(parent, target_name, layer, target)


# register_peft_method() takes none but the kinds that PEFT lists itself.
PEFT_TYPE_TO_CONFIG_MAPPING[PeftType.BOTTLENECK] = BottleneckConfig
PEFT_TYPE_TO_TUNER_MAPPING[PeftType.BOTTLENECK] = BottleneckModel
PEFT_TYPE_TO_PREFIX_MAPPING[PeftType.BOTTLENECK] = BottleneckModel.prefix
