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
    LORA_VARIANTS,
    METHODS,
    OFFLOADS,
    STRATEGIES,
    Method,
    families,
)
from recipec.axes.attention import ATTENTIONS
from recipec.axes.loops import LOOPS
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
Variant = one_of({row.name: row.means for row in LORA_VARIANTS.values()})
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
TrainingLoop = one_of({row.name: row.means for row in LOOPS.values()})
Offload = one_of({AUTO: "decided"} | OFFLOADS)
AttentionKernel = one_of({AUTO: "decided"} | {row.name: row.means for row in ATTENTIONS.values()})
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


Targets = Literal["all-linear", "attention"] | Annotated[list[Line], Field(min_length=1, max_length=256)]


class Lora(Section):
    """The shape of the low-rank adapters."""

    rank: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "Rank", "The inner width of the adapters: a higher rank can learn more and takes more memory.", 16
    )
    alpha: Annotated[float, Field(gt=0, le=65_536)] | None = key(
        "Alpha", "The scale of the adapters: what they add is multiplied by alpha / rank.", 32
    )
    targets: Targets | None = key(
        "Targets",
        "What gets an adapter: `all-linear` (of a mixture of experts: attention and all experts), `attention`, or a "
        "list of names, `experts.gate_up_proj` and `experts.down_proj` among them.",
        "all-linear",
        ["q_proj", "v_proj"],
    )
    expert_rank: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "Expert rank",
        "The rank of the adapters of each expert, in a mixture of experts whose experts have some.",
        2,
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = key(
        "Dropout", "The probability that a value of the input of an adapter is set to 0.", 0.05
    )
    variant: Variant | None = key(
        "Variant",
        "What is done otherwise than in plain LoRA. Only where it is named.",
        *LORA_VARIANTS,
    )


class Prompt(Section):
    """The shape of a soft prompt."""

    virtual_tokens: Annotated[int, Field(ge=1, le=1024)] | None = key(
        "Virtual tokens", "How many trained embeddings stand before every row.", 20
    )


class Curriculum(Section):
    """What makes a row hard; exactly one of by and column."""

    by: Literal["length"] | None = key(
        "By", "`length`: rows are the harder the more tokens they have.", "length", absent="the column says it"
    )
    column: Line | None = key(
        "Column",
        "The column of the training rows that says how hard a row is: a number, which is higher for harder rows.",
        "difficulty",
        absent="`by` says it",
    )
    parts: Annotated[int, Field(ge=2, le=1000)] | None = key(
        "Parts", "Into how many parts of equal size the ordered rows are cut; inside a part their order is random.", 10
    )


class Learning(Section):
    """How one stage learns."""

    learning_rate: Annotated[float, Field(gt=0, lt=10)] | None = key(
        "Learning rate", "The peak learning rate, reached after the warmup. Set it to reproduce a known run.", 2e-4
    )
    schedule: Schedule | None = key("Schedule", "How the learning rate falls after the warmup.", "linear")
    warmup: Annotated[float, Field(ge=0, lt=1)] | None = key(
        "Warmup", "The share of the steps in which the learning rate rises from 0 to its peak.", 0.03
    )
    weight_decay: Annotated[float, Field(ge=0, le=10)] | None = key(
        "Weight decay", "How strongly the optimizer draws the weights towards 0; 0 turns it off.", 0.01
    )
    max_grad_norm: Annotated[float, Field(gt=0, le=1e6)] | None = key(
        "Gradient norm", "Gradients whose norm is above this are scaled down to it.", 1.0
    )
    epochs: Annotated[float, Field(gt=0, le=10_000)] | None = key(
        "Epochs", "How often training goes through the training rows; parts count. Excludes max_steps.", 3
    )
    max_steps: Annotated[int, Field(ge=1, le=10**9)] | None = key(
        "Steps",
        "The number of optimizer steps after which training ends. Excludes epochs.",
        1000,
        absent="the steps of the epochs",
    )
    global_batch_size: Batch | None = key(
        "Global batch", "Examples per optimizer step, over all GPUs and with gradient accumulation.", 64
    )
    micro_batch_size: Batch | None = key(
        "Micro batch", "Examples that one GPU takes through one forward pass; more of them take more memory.", 4
    )
    eval_every: OpenFraction | None = key(
        "Evaluate every", "The share of the steps between two evaluations during training.", 0.05
    )
    save_every: OpenFraction | None = key("Save every", "The share of the steps between two checkpoints.", 0.1)
    early_stopping_patience: Annotated[int, Field(ge=0, le=1000)] | None = key(
        "Early stopping", "Evaluations without a lower loss after which training stops; 0 never stops it.", 5
    )
    logging_steps: Annotated[int, Field(ge=1, le=100_000)] | None = key(
        "Logging steps", "Optimizer steps between two points of the curves in the tracker.", 10
    )
    attention: AttentionKernel | None = key(
        "Attention", "What computes attention, and the package that it needs.", "sdpa", "torch_varlen", default=AUTO
    )
    packing: Literal["auto"] | bool | None = key(
        "Packing", "Whether short examples are joined into sequences of full length.", True, default=AUTO
    )
    curriculum: Curriculum = table(
        "Easy rows first",
        "Train on easy rows first, in every epoch: by their length, or by a column. Without it the order is random.",
        {"column": "difficulty"},
    )
    arguments: dict[Line, Any] | None = key(
        "Arguments",
        "Keywords passed to the trainer as they are; not those that recipec decides.",
        {"neftune_noise_alpha": 5.0},
        absent="nothing is passed on",
    )


class AdaptedLearning(Learning):
    """How a stage learns that may train adapters."""

    lora: Lora = table(
        "LoRA",
        "The shape of the low-rank adapters: rank, scale, targets, dropout and variant. Asks for adapters where "
        "adaptation is not set.",
        {"rank": 16, "alpha": 32},
    )
    prompt: Prompt = table(
        "Soft prompt",
        "The shape of a soft prompt, of supervised fine-tuning alone. Asks for prompt tuning where adaptation is not "
        "set.",
        {"virtual_tokens": 20},
    )


class _General(AdaptedLearning):
    adaptation: Adaptation | None = key(
        "Adaptation",
        "What is trained: every weight, or low-rank adapters on a frozen base model.",
        *families(),
        default=AUTO,
    )
    quantization: Quantization | None = key(
        "Quantization", "How the frozen base model is stored while adapters train.", *BASES, default=AUTO
    )
    precision: Precision | None = key(
        "Precision", "The number format that the forward and backward pass compute in.", "bf16", default=AUTO
    )
    loop: TrainingLoop | None = key(
        "Loop",
        "Who runs the steps: the method's trainer, or a loop that train.py has itself, for a team that wants no "
        "Trainer.",
        *LOOPS,
        absent="the method's trainer",
    )
    strategy: Strategy | None = key(
        "Strategy", "How the work and the memory of a step are spread over GPUs.", *STRATEGIES, default=AUTO
    )
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
    compile: bool | None = key(
        "Compile", "Compile the model with torch.compile, which takes minutes at the start.", True
    )
    optimizer: Optimizer | None = key(
        "Optimizer", "The optimizer, and how it keeps its states in memory.", "adamw", default=AUTO
    )
    keep_checkpoints: Annotated[int, Field(ge=2, le=1000)] | None = key(
        "Checkpoints kept", "How many checkpoints stay on disk, the latest and the best among them.", 3
    )


ADAPTED = tuple(name for name, row in METHODS.items() if any(ADAPTATIONS[kind].table for kind in row.adaptations))


def _stage_table(row: Method) -> tuple[Any, Any]:
    """The table of [train] whose values hold for one stage only."""
    title = f"{row.title[:1].upper()}{row.title[1:]} stage"
    example = {"learning_rate": row.learning_rate[0].value}
    learning = AdaptedLearning if row.name in ADAPTED else Learning
    return learning, table(
        title, "Values of [train] that hold for this stage only, in place of those in [train].", example, alias=row.name
    )


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
