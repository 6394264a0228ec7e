"""What a combination of decisions looks like to the rows that know it not to work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES, Adaptation, Method, Strategy
from recipec.axes.strategies import DEEPSPEED, TORCH_FSDP


@dataclass(frozen=True, slots=True)
class Combination:
    """What is known to fail may depend on this; the defaults describe a plain run that nothing is known against."""

    method: Method = METHODS["sft"]
    adaptation: Adaptation = ADAPTATIONS["lora"]
    strategy: Strategy = STRATEGIES["single"]
    precision: str = "bf16"
    offload: str = "none"
    recompute_every: int = 1
    activation_offload: bool = False
    optimizer: str = "adamw"
    attention: str = "sdpa"
    packing: bool = False
    compile: bool = False
    gpu_bf16: bool = True
    gpu_is_cpu: bool = False
    moe: bool = False
    leaf_modules: bool = False  # the DeepSpeed configuration names the expert block as a leaf
    lora_targets: str | tuple[str, ...] = "all-linear"
    lora_dropout: float = 0.0
    modules_to_save: tuple[str, ...] = ()
    tensor: int = 1
    context: int = 1
    expert: int = 1
    tensor_divides: bool = True  # heads and key heads divide by the ranks
    context_divides: bool = True  # the length divides by twice the ranks
    experts: int = 0
    model_type: str = "llama"  # as config.json says
    has_class: bool = True  # transformers has the class of the method's result for that type
    eval_every: float = 0.05
    save_every: float = 0.05

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed runs it."""
        return self.strategy.engine == DEEPSPEED

    @property
    def adapts_linear(self) -> bool:
        """Whether linear layers get adapters."""
        return not self.adaptation.trains_all

    @property
    def packs_examples(self) -> bool:
        """Whether several whole examples share a sequence."""
        return self.packing and self.method.packs == "examples"

    @property
    def fsdp(self) -> bool:
        """Whether PyTorch's FSDP shards it, over all ranks or in groups."""
        return self.strategy.engine == TORCH_FSDP


@dataclass(frozen=True, slots=True)
class BadCombination:
    """One row: when it applies, what happens, who says so, and what to do instead."""

    id: str
    title: str
    why: str
    citation: str
    instead: str
    applies: Callable[[Combination], bool]
    refused: bool = True  # False: it runs, and is warned about
