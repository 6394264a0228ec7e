"""What a combination of decisions looks like to the rows that know it not to work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from recipec.axes import Adaptation, LoraVariant, Method, Strategy
from recipec.axes.attention import ATTENTIONS, Attention
from recipec.axes.generators import Generator
from recipec.axes.loops import TRAINER, Loop
from recipec.axes.lora_variants import STANDARD
from recipec.axes.strategies import DEEPSPEED, ON_DEVICE, TORCH_FSDP


class ModelTraits(Struct, frozen=True, kw_only=True):
    """What of a combination its model decides, some of it beside the length of rows or the device."""

    leaks: bool  # the model builds its mask without the positions of packed examples
    hybrid: bool  # some of its layers have no attention
    lacks_kernels: bool  # these layers have kernels for this device that the pinned requirements leave out
    caps_scores: bool  # the model's attention
    has_sinks: bool  # the model's attention
    head_features: int
    chunked: bool  # some of its layers attend within chunks of the sequence
    beyond_chunk: bool  # a longest row is longer than a chunk
    two_heads: bool  # layers with a window attend in other heads than those without
    borrows: bool  # some layers attend with the keys and values of earlier ones
    slices: bool  # a second embedding enters every layer
    moe: bool
    balanced: bool  # a loss keeps the load of its experts balanced
    all_run: bool  # every expert computes every token
    in_mxfp4: bool  # the files of the recipe's model have its experts in 4 bits
    linear_router: bool  # the router of the experts is a linear module
    dispatched: bool  # a run with DeepSpeed-MoE in the place of its experts was verified, with equal logits
    normalizes: bool  # what the router gives the experts of a token sums to 1
    per_token: int  # experts
    spread: bool  # a run with its experts spread over ranks was verified
    leaf_modules: bool  # the DeepSpeed configuration names the expert block as a leaf
    experts: int
    model_type: str  # as config.json says
    has_class: bool  # transformers has the class of the method's result for that type
    renamed: bool  # its parameters have other names in memory than in a checkpoint
    fp8_sizes: bool  # the sizes of the linear layers are multiples of 16
    beyond_positions: bool  # a longest row and the virtual tokens before it are longer than the model's context


class Combination(ModelTraits, frozen=True, kw_only=True):
    """What is known to fail may depend on this."""

    method: Method
    generator: Generator | None  # that writes the answers; of a method that learns from its own
    adaptation: Adaptation
    strategy: Strategy
    precision: str
    offload: str
    recomputes: bool  # layers, in the backward pass
    recompute_every: int
    activation_offload: bool
    precomputes: bool  # the reference scores all rows before training
    several_nodes: bool
    optimizer: str
    attention: str
    packing: bool
    micro_batch: int
    compile: bool
    gpu_bf16: bool
    gpu_is_cpu: bool
    gpu_cuda: bool
    gpu_int8: bool  # multiplies 8-bit integers
    gpu_varlen: bool  # has the variable-length kernel of PyTorch
    scales_late: bool  # a row as the model sees it reaches a place from which queries are scaled otherwise
    more_ranks_than_experts: bool  # share the weights
    has_capacity: bool  # experts have room for so many tokens
    lora_targets: str | tuple[str, ...]
    lora_experts: tuple[str, ...]  # fused expert parameters with adapters
    lora_dropout: float
    loop: Loop
    variant: LoraVariant
    continues: bool  # goes on with an adapter that is there
    modules_to_save: tuple[str, ...]
    new_tokens: bool  # the model's vocabulary gets some
    begins: bool  # with the recipe's model, not with the result of another stage
    tensor: int
    context: int
    expert: int
    tensor_divides: bool  # heads and key heads divide by the ranks
    context_divides: bool  # the length divides by twice the ranks
    acts: bool  # answers call tools and go on with their results
    served_whole: bool  # GPUs that write answers for the others share the heads of a layer equally
    copy_whole: bool  # GPUs that train and share a copy of the weights share the heads of a layer equally
    copy_divides: bool  # they are equal groups of the ranks of a node
    served_fits: bool  # they hold a copy of the weights and an answer
    serves_nodes: bool  # they write for a training on several nodes
    cuts_groups: bool  # a step does not hold all answers to a prompt that are compared
    eval_every: float
    asked_save_every: float  # that the recipe asks for; 0 where it leaves that open
    ordered: bool  # the recipe orders the rows from easy to hard
    fp8: bool  # linear layers multiply in FP8
    gpu_fp8: bool  # torchao trains with FP8 on it
    elastic: bool  # weights are held near their start
    has_general: bool  # there are rows, read as those of the stage are, that tell which weights matter
    asked_sampling: str  # the order of rows that the recipe asks for; "" where it leaves that open
    followed: bool  # another stage starts from the result
    updated_at_once: int  # weights of a rank that one call of the optimizer gets

    @property
    def copied(self) -> bool:
        """Whether answers are written with a copy of the weights."""
        return self.generator is not None and self.generator.own_copy

    @property
    def in_place(self) -> bool:
        """Whether answers are written with the very weights that learn."""
        return self.generator is not None and not self.generator.own_copy

    @property
    def dispatches(self) -> bool:
        """Whether its experts are trained in layers of DeepSpeed-MoE."""
        return self.moe and self.method.name in self.loop.dispatches

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed runs it."""
        return self.strategy.engine == DEEPSPEED

    @property
    def offloads(self) -> bool:
        """Whether states wait in host memory."""
        return self.offload != ON_DEVICE

    @property
    def adapts_linear(self) -> bool:
        """Whether linear layers get adapters."""
        return not self.adaptation.trains_all

    @property
    def packs_examples(self) -> bool:
        """Whether several whole examples share a sequence."""
        return self.packing and self.method.packs == "examples"

    @property
    def attends(self) -> Attention:
        """The row of its attention."""
        return ATTENTIONS[self.attention]

    @property
    def fsdp(self) -> bool:
        """Whether PyTorch's FSDP shards it, over all ranks or in groups."""
        return self.strategy.engine == TORCH_FSDP


# Of what is no row of the axes, the values that nothing is known against.
PLAIN: Mapping[str, Any] = {
    "precision": "fp32",
    "offload": ON_DEVICE,
    "recomputes": False,
    "recompute_every": 1,
    "activation_offload": False,
    "precomputes": False,
    "several_nodes": False,
    "optimizer": "adamw",
    "attention": "sdpa",
    "packing": False,
    "micro_batch": 1,
    "compile": False,
    "gpu_bf16": True,
    "gpu_is_cpu": False,
    "gpu_cuda": True,
    "gpu_int8": True,
    "gpu_varlen": True,
    "leaks": False,
    "hybrid": False,
    "renamed": False,
    "lacks_kernels": False,
    "caps_scores": False,
    "has_sinks": False,
    "head_features": 128,
    "chunked": False,
    "beyond_chunk": False,
    "scales_late": False,
    "two_heads": False,
    "borrows": False,
    "slices": False,
    "moe": False,
    "balanced": True,
    "more_ranks_than_experts": False,
    "all_run": False,
    "in_mxfp4": False,
    "linear_router": False,
    "dispatched": False,
    "normalizes": True,
    "per_token": 0,
    "has_capacity": False,
    "spread": True,
    "leaf_modules": False,
    "lora_targets": "all-linear",
    "lora_experts": (),
    "lora_dropout": 0.0,
    "loop": TRAINER,
    "variant": STANDARD,
    "continues": False,
    "modules_to_save": (),
    "new_tokens": False,
    "begins": True,
    "tensor": 1,
    "context": 1,
    "expert": 1,
    "tensor_divides": True,
    "context_divides": True,
    "experts": 0,
    "model_type": "llama",
    "has_class": True,
    "acts": False,
    "served_whole": True,
    "copy_whole": True,
    "copy_divides": True,
    "served_fits": True,
    "serves_nodes": False,
    "cuts_groups": False,
    "eval_every": 0.05,
    "asked_save_every": 0.0,
    "ordered": False,
    "fp8": False,
    "gpu_fp8": True,
    "fp8_sizes": True,
    "elastic": False,
    "has_general": True,
    "asked_sampling": "",
    "followed": False,
    "updated_at_once": 1,
    "beyond_positions": False,
}


class BadCombination(Struct, frozen=True):
    """One row: when it applies, what happens, who says so, and what to do instead."""

    id: str
    title: str
    why: str
    citation: str
    instead: str
    applies: Callable[[Combination], bool]
    refused: bool = True  # False: it runs, and is warned about
    then: Callable[[Combination], str] | None = None  # what to do instead in one combination, where that differs

    def instead_of(self, combination: Combination) -> str:
        """What to do instead of this combination."""
        return self.then(combination) if self.then else self.instead
