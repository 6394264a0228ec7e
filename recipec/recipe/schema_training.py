"""The section [train]: every decision that a recipe may fix.

Adaptations, strategies and stages are taken from the rows of recipec/axes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from recipec.axes import (
    ADAPTATIONS,
    BASES,
    METHODS,
    OFFLOADS,
    STRATEGIES,
    Method,
    families,
)
from recipec.recipe.fields import (
    AUTO,
    Line,
    OpenFraction,
    Section,
    key,
    one_of,
    table,
)

Adaptation = one_of({AUTO: "decided"} | families())
Quantization = one_of({AUTO: "decided"} | {row.name: row.means for row in BASES.values()})
Precision = one_of(
    {
        AUTO: "the best that the GPU computes",
        "bf16": "bfloat16",
        "fp16": "half precision with loss scaling",
        "fp32": "single precision",
    }
)
Strategy = one_of(
    {AUTO: "decided from the model, the GPUs and their link"} | {row.name: row.means for row in STRATEGIES.values()}
)
Offload = one_of({AUTO: "decided"} | OFFLOADS)
AttentionKernel = one_of(
    {
        AUTO: "decided",
        "sdpa": "PyTorch's fused kernels",
        "flash_attention_2": "the flash-attn package",
        "eager": "plain matrix products",
    }
)
Optimizer = one_of(
    {
        AUTO: "decided",
        "adamw": "AdamW, fused",
        "adamw-8bit": "its states in 8 bits",
        "paged-adamw": "fp32 states that spill to host memory",
        "paged-adamw-8bit": "8-bit states that spill to host memory",
        "adafactor": "second moments as rows and columns, no first ones",
        "lion": "one state, and steps of one size for all parameters",
        "lion-8bit": "its state in 8 bits",
        "sgd": "no state: a step along the gradient",
    }
)
Schedule = one_of(
    {
        "cosine": "falls along a cosine",
        "linear": "falls along a line",
        "constant": "stays after the warmup",
        "warmup-stable-decay": "stays, and falls over the last tenth",
    }
)
Batch = Annotated[int, Field(ge=1, le=1_048_576)]


class Lora(Section):
    """The shape of the low-rank adapters."""

    rank: Annotated[int, Field(ge=1, le=4096)] | None = key("Rank", "The inner width of the adapters.", 16)
    alpha: Annotated[float, Field(gt=0, le=65_536)] | None = key("Alpha", "Scales the adapters by alpha / rank.", 32)
    targets: Literal["all-linear"] | Annotated[list[Line], Field(min_length=1, max_length=256)] | None = key(
        "Targets", "`all-linear`, or a list of module names.", "all-linear", ["q_proj", "v_proj"]
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = key("Dropout", "On the input of the adapters.", 0.05)


class Learning(Section):
    """How one stage learns."""

    learning_rate: Annotated[float, Field(gt=0, lt=10)] | None = key("Learning rate", "The peak.", 2e-4)
    schedule: Schedule | None = key("Schedule", "How the learning rate falls.", "linear")
    warmup: Annotated[float, Field(ge=0, lt=1)] | None = key("Warmup", "The share of the run it rises in.", 0.03)
    weight_decay: Annotated[float, Field(ge=0, le=10)] | None = key("Weight decay", "The optimizer's decay.", 0.01)
    max_grad_norm: Annotated[float, Field(gt=0, le=1e6)] | None = key("Gradient norm", "Longer ones are clipped.", 1.0)
    epochs: Annotated[float, Field(gt=0, le=10_000)] | None = key("Epochs", "Passes over the data.", 3)
    max_steps: Annotated[int, Field(ge=1, le=10**9)] | None = key(
        "Steps", "Optimizer steps. Excludes epochs.", 1000, absent="the steps of the epochs"
    )
    global_batch_size: Batch | None = key("Global batch", "Examples per optimizer step over all GPUs.", 64)
    micro_batch_size: Batch | None = key("Micro batch", "Examples per GPU and forward pass.", 4)
    eval_every: OpenFraction | None = key("Evaluate every", "Share of the run between evaluations.", 0.05)
    save_every: OpenFraction | None = key("Save every", "Share of the run between checkpoints.", 0.1)
    packing: Literal["auto"] | bool | None = key("Packing", "Join short examples to full length.", True, default=AUTO)
    arguments: dict[Line, Any] | None = key(
        "Arguments",
        "Keywords passed to the trainer as they are; not those that recipec decides.",
        {"neftune_noise_alpha": 5.0},
        absent="nothing is passed on",
    )


class AdaptedLearning(Learning):
    """How a stage learns that may train adapters."""

    lora: Lora = table("LoRA", "The shape of the adapters.", {"rank": 16, "alpha": 32})


class _General(AdaptedLearning):
    adaptation: Adaptation | None = key("Adaptation", "What is trained.", *families(), default=AUTO)
    quantization: Quantization | None = key("Quantization", "How the frozen base is stored.", *BASES, default=AUTO)
    precision: Precision | None = key("Precision", "What it computes in.", "bf16", default=AUTO)
    strategy: Strategy | None = key("Strategy", "How the work is spread over GPUs.", *STRATEGIES, default=AUTO)
    tensor_parallel: Annotated[int, Field(ge=1, le=8)] | None = key(
        "Tensor parallel",
        "GPUs of a node that share every matrix product of a layer.",
        8,
        absent="layers are split only where nothing else fits",
    )
    context_parallel: Annotated[int, Field(ge=1, le=1024)] | None = key(
        "Context parallel",
        "GPUs that share the tokens of one sequence.",
        2,
        absent="sequences are split only where nothing else fits",
    )
    expert_parallel: Annotated[int, Field(ge=1, le=8)] | None = key(
        "Expert parallel",
        "GPUs that share the experts of a layer.",
        8,
        absent="experts are shared out only where nothing else fits",
    )
    offload: Offload | None = key(  # DeepSpeed 0.19.8, run: loss 5.21 without a break, 5.83 resumed
        "Offload",
        "What leaves the GPUs between uses. Not to NVMe: DeepSpeed resumes such a run from the wrong weights.",
        *OFFLOADS,
        default=AUTO,
    )
    activation_checkpointing: bool | None = key(
        "Activation checkpointing", "Recompute activations in the backward pass instead of keeping them.", True
    )
    recompute_every: Annotated[int, Field(ge=1, le=64)] | None = key(
        "Recomputed layers",
        "Every how many layers one is recomputed; the others keep their activations.",
        2,
        absent="every layer where activations are recomputed; fewer where speed comes first",
    )
    activation_offload: bool | None = key(
        "Activation offload",
        "What recomputed layers start from waits in host memory.",
        True,
        absent="only where nothing simpler fits",
    )
    attention: AttentionKernel | None = key("Attention", "The attention kernel.", "sdpa", default=AUTO)
    compile: bool | None = key("Compile", "Compile the model with torch.compile.", True)
    optimizer: Optimizer | None = key("Optimizer", "The optimizer and its states.", "adamw", default=AUTO)
    keep_checkpoints: Annotated[int, Field(ge=2, le=1000)] | None = key(
        "Checkpoints kept", "The latest and the best count.", 3
    )


ADAPTED = tuple(name for name, row in METHODS.items() if any(ADAPTATIONS[kind].table for kind in row.adaptations))


def _stage_table(row: Method) -> tuple[Any, Any]:
    """The table of [train] whose values hold for one stage only."""
    title = f"{row.title[:1].upper()}{row.title[1:]} stage"
    example = {"learning_rate": row.learning_rate[0].value}
    learning = AdaptedLearning if row.name in ADAPTED else Learning
    return learning, table(title, "Values of this stage only.", example, alias=row.name)


_OF_STAGES = re.compile(rf"\btrain\.(?=({'|'.join(AdaptedLearning.model_fields)})\b)")


def of_stage(text: str, stage: str) -> str:
    """A text whose keys of [train] that a stage can have for itself are those of [train.STAGE]."""
    return _OF_STAGES.sub(f"train.{stage}.", text)


def attribute(stage: str) -> str:
    """The attribute of Train that holds a stage's table."""
    return stage.replace("-", "_")


Train = create_model(
    "Train",
    __base__=_General,
    __doc__="Decisions that you make yourself: your value wins, and the rule still says what it thinks of it.",
    **{attribute(name): _stage_table(row) for name, row in METHODS.items()},
)
