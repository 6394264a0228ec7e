"""What one training step works on: the method, the lengths and the code path that the memory law depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, LORA_VARIANTS, METHODS, Method
from recipec.axes.adaptations import (
    ALL_LINEAR,
    BOTTLENECKS,
    FUSIONS,
    MATRICES,
    PREFIXES,
    PROMPTS,
    SCALES,
)
from recipec.axes.adapted import behind, scaled, targeted
from recipec.axes.methods.sft import SFT
from recipec.catalog.architecture import Architecture


class LoraShape(Struct, frozen=True):
    """The adapters of one run: low-rank ones; or vectors, a soft prompt, a prefix, bottlenecks or a mix of these, which
    have the memory law of low-rank ones on no module, and what they keep."""

    rank: int
    targets: str | tuple[str, ...] = ALL_LINEAR  # module names ("q_proj") or every linear layer but the head
    dropout: bool = False  # in effect: it keeps a mask and a dropped copy of each adapted input
    experts: tuple[str, ...] = ()  # fused expert parameters that have adapters
    expert_rank: int = 0  # of the adapters of one expert
    magnitudes: bool = False  # a trained number for each output, and W + BA built in each forward to measure it (DoRA)
    scaled: tuple[str, ...] = ()  # modules whose outputs, of the last of a feed-forward block inputs, a vector scales
    virtual_tokens: int = 0  # embeddings before every row, which all layers compute with it
    prefix_tokens: int = 0  # keys and values before every row, in each layer
    encoder: int = 0  # width of the network that makes either; 0: they are trained themselves
    bottleneck: int = 0  # width of a network that stands behind a module
    behind: tuple[str, ...] = ()  # these modules
    mixed: int = 0  # how many such networks, which are frozen, stand there and are mixed; 0: one trains
    new_rows: int = 0  # of the embedding, and of the head where that is another matrix, that train for new tokens

    def adapts(self, module: str) -> bool:
        """Whether a linear module carries an adapter."""
        return self.targets == ALL_LINEAR or module in self.targets


def lora_shape(architecture: Architecture, value: Mapping[str, Any]) -> LoraShape:
    """The adapters that the decisions of a stage give a model."""
    has = architecture.attention_modules, architecture.expert_parameters, architecture.named_linear
    modules, experts = targeted(value["lora_targets"], *has)
    rank = value["lora_expert_rank"] if experts else 0
    magnitudes, rows = LORA_VARIANTS[value["lora_variant"]].magnitudes, value.get("trained_rows", 0)
    return LoraShape(value["lora_rank"], modules, value["lora_dropout"] > 0, experts, rank, magnitudes, new_rows=rows)


def _scales(architecture: Architecture, value: Mapping[str, Any]) -> LoraShape:
    """The vectors that the decisions of a stage give a model."""
    modules = architecture.modules
    return LoraShape(0, (), scaled=scaled(value["ia3_scales"], modules.qkv, modules.mlp_out))


def _prompt(architecture: Architecture, value: Mapping[str, Any]) -> LoraShape:
    """The soft prompt that the decisions of a stage give a model."""
    return LoraShape(0, (), virtual_tokens=value["virtual_tokens"], encoder=value.get("encoder_hidden_size", 0))


def _prefix(architecture: Architecture, value: Mapping[str, Any]) -> LoraShape:
    """The prefix that the decisions of a stage give a model."""
    return LoraShape(0, (), prefix_tokens=value["prefix_tokens"], encoder=value["prefix_encoder_size"])


def _bottlenecks(architecture: Architecture, value: Mapping[str, Any]) -> LoraShape:
    """The networks that the decisions of a stage put behind modules of a model."""
    width, modules = architecture.hidden_size // value["reduction_factor"], architecture.modules
    places = behind(value["adapters_after"], modules.output, modules.mlp_out)
    return LoraShape(0, (), bottleneck=max(1, width), behind=places)


def _mix(architecture: Architecture, value: Mapping[str, Any]) -> LoraShape:
    """The attention over such networks that the decisions of a stage give a model."""
    return replace(_bottlenecks(architecture, value), mixed=len(value["mixed_adapters"]))


_SHAPES = {
    MATRICES: lora_shape,
    SCALES: _scales,
    PROMPTS: _prompt,
    PREFIXES: _prefix,
    BOTTLENECKS: _bottlenecks,
    FUSIONS: _mix,
}


def adapter_shape(architecture: Architecture, value: Mapping[str, Any]) -> LoraShape | None:
    """What a stage trains beside the weights; None where it trains these."""
    row = ADAPTATIONS[value["adaptation"]]
    return None if row.trains_all else _SHAPES[row.trains](architecture, value)


class Workload(Struct, frozen=True):
    """One training step, apart from the layout that runs it.

    The defaults are what an emitted train.py does (TRL 1.16, transformers 5.23, PEFT 0.21, accelerate 1.15). The
    other values exist to predict runs of other code, which is how the estimates are scored.
    """

    objective: str = SFT.name  # a row of recipec.axes.METHODS
    own: tuple[tuple[str, float | str], ...] = ()  # values of its own hyperparameters that change the row
    seq_len_tokens: int = 2048  # longest example (padded) or packed length
    example_tokens: int = 0  # of a usual one of the examples that share a sequence; 0: one fills it
    lora: LoraShape | None = None
    teacher: Architecture | None = None  # the model that a distilling method learns from, and no other method has
    judges: tuple[Architecture, ...] = ()  # reward models, whole and frozen on every rank
    written_tokens: int = 0  # of a sequence, those that the model writes itself, at most; 0 where the rows hold all
    shown_tokens: int = 0  # of a prompt, those that describe tools and begin an episode
    rounds: int = 0  # of tool calls in an answer, at most: the answer goes on behind their results
    result_tokens: int = 0  # of the results of a round, which are part of written_tokens
    updates: int = 1  # optimizer steps that learn from one generation
    answer_passes: int = 1  # over the answers of a generation
    head: str = ""  # how another code computes the loss: see recipec/estimate/head.py; empty: as the method does
    elastic: bool = False  # the Fisher information and the starting weights are kept: elastic weight consolidation
    capacity_factor: float = 0.0  # of experts that DeepSpeed-MoE computes; 0: those of the model, which drop nothing
    published: bool = True  # the model is read from its published files, and not from what a script of the run saved
    loads_itself: bool = False  # train.py may load the model: under FSDP then one rank of a node reads for the others
    fp8: bool = False  # linear layers multiply in FP8: the estimates are those of the number format around it
    padded: bool = False  # the batch carries an attention mask
    compiled: bool = False  # a traced forward builds the mask whether it is needed or not
    foreach: bool = False  # the multi-tensor AdamW, which makes temporaries; ours is the fused one
    decays: bool = True  # a weight decay: the multi-tensor SGD makes a copy of the gradients for it
    full_weights: str = "fp32"  # dtype that full fine-tuning trains outside DeepSpeed: fp32 | bf16
    autocast: bool = True  # False: the weights' own dtype is the compute dtype ("pure bf16")
    adapters: str = "fp32"  # what they train in outside DeepSpeed: fp32 | bf16
    double_quant: bool = True
    on_cpu: bool = False  # without the kernels of a GPU: TRL's head computes in whole tiles, dropout keeps numbers
    kbit_fp32_residual: bool = False  # prepare_model_for_kbit_training: norms, embeddings and the residual in fp32
    reentrant: bool = False  # older checkpointing, which keeps the recomputed layer's output
    fused_kernels: bool = False  # hand-fused LoRA kernels that share the adapter's input and keep no copy
    saves_4bit_inputs: int = (
        0  # bitsandbytes before 0.43.2 kept the input of every 4-bit product: for so many micro steps
    )
    placed_features: int = 0  # outputs of adapters on parts of a fused projection: index_copy keeps what it places
    repeated_kv: bool = False  # attention code that expands keys and values to all query heads
    sync_each_batch: bool = False  # FSDP2 accumulation: False keeps whole gradients on every rank (Trainer's default)
    fsdp: int = 2  # FSDP generation: 1 keeps the root unit gathered and reduces in the compute dtype
    reduces_in_fp32: bool = False  # gradients travel in fp32 between the ranks that share weights: FSDP's reduce_dtype
    first_flash: bool = False  # attention is the first version of FlashAttention, as Triton has it

    def __post_init__(self) -> None:
        """A teacher goes with the methods that have one, and with no other."""
        if self.method.has_teacher != (self.teacher is not None):
            missing = "needs a teacher's architecture" if self.method.has_teacher else "has no teacher"
            raise ValueError(f"{self.objective} {missing}")

    @property
    def method(self) -> Method:
        """The row of its objective, as its own hyperparameters have it."""
        return METHODS[self.objective].under(dict(self.own))

    @property
    def steps_taught(self) -> int:
        """Optimizer steps that learn from the answers of one generation."""
        return self.updates * self.answer_passes

    @property
    def reread_tokens(self) -> int:
        """Of an answer, those that stand before what a later turn writes, which is counted from there again.

        TRL 1.16 allows each turn as many new tokens as the whole answer (trainer/grpo_trainer.py, _tool_call_loop),
        and cuts what is too much afterwards.
        """
        return self.written_tokens if self.rounds else 0

    @property
    def code(self) -> str:
        """Which code computes the loss: a row of recipec/estimate/head.py."""
        return self.head or self.method.head
