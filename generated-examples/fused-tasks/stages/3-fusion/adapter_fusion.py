"""AdapterFusion as a kind of PEFT adapter: import this file before PEFT loads one.

Behind a linear module stand the bottleneck adapters of several tasks, frozen, and attention over what each of them adds
(Pfeiffer et al., arXiv 2005.00247): the module's output asks, the adapters' outputs are keys and values. Only the three
matrices of the attention are trained. A save holds them and the adapters, so that it loads on the base model alone.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING, PEFT_TYPE_TO_PREFIX_MAPPING, PEFT_TYPE_TO_TUNER_MAPPING
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import linear, relu
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class PeftType(StrEnum):
    FUSION = "FUSION"


@dataclass
class FusionConfig(PeftConfig):
    adapters: list[str] | None = None  # the tasks whose adapters are mixed
    target_modules: list[str] | None = None  # the linear modules with adapters behind them
    reduction_factor: int = 16  # of the adapters: the width of the model over that of an adapter

    def __post_init__(self) -> None:
        super().__post_init__()
        self.peft_type = PeftType.FUSION


class FrozenAdapters(nn.Module):
    """The adapters of all tasks behind a module, as load_adapters() fills them; they are not trained.

    Their weights are stacked, because PEFT finds in a file what stands directly below the name of a mix.
    """

    def __init__(self, count: int, features: int, size: int) -> None:
        super().__init__()
        self.down_weight = nn.Parameter(torch.zeros(count, size, features), requires_grad=False)
        self.down_bias = nn.Parameter(torch.zeros(count, size), requires_grad=False)
        self.up_weight = nn.Parameter(torch.zeros(count, features, size), requires_grad=False)
        self.up_bias = nn.Parameter(torch.zeros(count, features), requires_grad=False)

    def forward(self, output: torch.Tensor) -> torch.Tensor:
        """What each adapter adds to the module's output: one more dimension before the last."""
        downs, ups = zip(self.down_weight, self.down_bias, strict=True), zip(self.up_weight, self.up_bias, strict=True)
        added = [linear(relu(linear(output, *down)), *up) for down, up in zip(downs, ups, strict=True)]
        return torch.stack(added, dim=-2)


class FusionLayer(nn.Module, BaseTunerLayer):
    """A linear module with frozen adapters and attention over them behind it, each mix under its name."""

    adapter_layer_names = ("fusion_query", "fusion_key", "fusion_value")
    other_param_names = ("fusion_mixed",)

    def __init__(self, base_layer: nn.Linear, adapter_name: str, config: FusionConfig) -> None:
        super().__init__()
        self.base_layer = base_layer
        self.fusion_query = nn.ModuleDict()
        self.fusion_key = nn.ModuleDict()
        self.fusion_value = nn.ModuleDict()
        self.fusion_mixed = nn.ModuleDict()
        self._active_adapter, self._disable_adapters, self.merged_adapters = adapter_name, False, []
        self.add_mix(adapter_name, config)

    def add_mix(self, name: str, config: FusionConfig) -> None:
        """Add attention that starts as a weighted mean of what the adapters add: the value matrix is the identity."""
        features = self.base_layer.out_features
        size = max(1, features // config.reduction_factor)
        self.fusion_mixed[name] = FrozenAdapters(len(config.adapters), features, size)
        for part in (self.fusion_query, self.fusion_key, self.fusion_value):
            part[name] = nn.Linear(features, features, bias=False)
        nn.init.normal_(self.fusion_query[name].weight, std=0.02)
        nn.init.normal_(self.fusion_key[name].weight, std=0.02)
        nn.init.eye_(self.fusion_value[name].weight)
        self._move_adapter_to_device_of_base_layer(name)
        self.set_adapter(self.active_adapters, inference_mode=config.inference_mode)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output = self.base_layer(inputs)
        if self.disable_adapters:
            return output
        for name in self.active_adapters:
            if name in self.fusion_query:
                output = output + self.change(name, output).to(output.dtype)
        return output

    def change(self, name: str, output: torch.Tensor) -> torch.Tensor:
        """What a mix adds to the module's output.

        The key matrix is multiplied with the query and the value matrix with the mean, not either with every adapter's
        output: the result is the same, and takes less to compute and to keep.
        """
        query = self.fusion_query[name]
        output = output.to(query.weight.dtype)
        added = self.fusion_mixed[name](output)
        asked = query(output) @ self.fusion_key[name].weight
        shares = (added @ asked.unsqueeze(-1)).softmax(dim=-2)
        return self.fusion_value[name]((shares.transpose(-2, -1).to(added.dtype) @ added).squeeze(-2))


class FusionModel(BaseTuner):
    prefix = "fusion_"
    tuner_layer_cls = FusionLayer

    def _create_and_replace(
        self,
        peft_config: FusionConfig,
        adapter_name: str,
        target: nn.Module,
        target_name: str,
        parent: nn.Module,
        **kwargs: Any,
    ) -> None:
        if isinstance(target, FusionLayer):
            target.add_mix(adapter_name, peft_config)
            return
        layer = FusionLayer(target, adapter_name, peft_config)
        if adapter_name not in self.active_adapters:
            layer.requires_grad_(False)  # one more mix is not trained by itself
        self._replace_module(parent, target_name, layer, target)


# register_peft_method() takes none but the kinds that PEFT lists itself.
PEFT_TYPE_TO_CONFIG_MAPPING[PeftType.FUSION] = FusionConfig
PEFT_TYPE_TO_TUNER_MAPPING[PeftType.FUSION] = FusionModel
PEFT_TYPE_TO_PREFIX_MAPPING[PeftType.FUSION] = FusionModel.prefix


@torch.no_grad()
def load_adapters(model: PeftModel, folders: dict[str, Path]) -> None:
    """Give the frozen adapters of a new mix the weights that the training of their tasks left."""
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, FusionLayer)}
    for place, folder in enumerate(folders.values()):
        trained = load_file(folder / "adapter_model.safetensors")
        for name, layer in layers.items():
            for part, stacked in layer.fusion_mixed[model.active_adapter].named_parameters():
                stacked[place].copy_(trained.pop(f"{name}.bottleneck_{part.replace('_', '.')}"))
        if trained:
            raise SystemExit(f"{folder} has adapters behind other modules: {', '.join(sorted(trained))}.")


class HoldValues(TrainerCallback):
    """Holds the value matrices near the identity, so that the mix does not learn the tasks itself.

    It adds the gradient of strength * sum((value - identity)**2) behind the backward passes of a step and clipping.
    """

    def __init__(self, strength: float) -> None:
        self.strength = strength

    @torch.no_grad()
    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: nn.Module, **kwargs: Any
    ) -> None:
        for layer in model.modules():
            if isinstance(layer, FusionLayer):
                for value in layer.fusion_value.values():
                    value.weight.grad.add_(value.weight, alpha=2 * self.strength)
                    value.weight.grad.diagonal().sub_(2 * self.strength)
