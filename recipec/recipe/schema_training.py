"""The section [train]: every decision that a recipe may fix.

Adaptations, strategies and stages are taken from the rows of recipec/axes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
from recipec.axes.attention import ATTENTIONS
from recipec.axes.loops import LOOPS
from recipec.recipe.fields import (
    AUTO,
    Line,
    OpenFraction,
    Rate,
    Section,
    key,
    one_of,
    table,
)
from recipec.recipe.schema_shapes import Bottleneck, Lora, Prefix, Prompt
from recipec.recipe.schema_tables import Curriculum, DispatchedExperts, Elastic

Adaptation = one_of({AUTO: "decided"} | families())
Quantization = one_of({AUTO: "decided"} | {row.name: row.means for row in BASES.values()})
Precision = one_of(
    {
        AUTO: "bf16 where the GPU supports it",
        "bf16": "bfloat16 mixed precision",
        "fp16": "float16 mixed precision with loss scaling",
        "fp32": "float32",
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
        "adamw": "fused AdamW, 8 bytes of states per trained parameter",
        "adamw-8bit": "AdamW with 8-bit states, 2 bytes per trained parameter",
        "paged-adamw": "AdamW whose states move to host memory when GPU memory runs out",
        "paged-adamw-8bit": "8-bit AdamW whose states move to host memory when GPU memory runs out",
        "adafactor": "Adafactor: factored second moments and no momentum, almost no memory",
        "lion": "Lion: one state, 4 bytes per trained parameter",
        "lion-8bit": "Lion with an 8-bit state, 1 byte per trained parameter",
        "sgd": "stochastic gradient descent without momentum, no states",
    }
)
Schedule = one_of(
    {
        "cosine": "cosine decay to 0",
        "linear": "linear decay to 0",
        "constant": "no decay after the warmup",
        "warmup-stable-decay": "constant, then decay over the last 10% of the steps",
    }
)
Batch = Annotated[int, Field(ge=1, le=1_048_576)]


class Learning(Section):
    """Hyperparameters of one stage."""

    learning_rate: Rate | None = key(
        "Learning rate", "Peak learning rate, reached after the warmup. Set it to reproduce a known run.", 2e-4
    )
    schedule: Schedule | None = key(
        "Schedule", "Learning rate schedule after the warmup, such as cosine decay.", "linear"
    )
    warmup: Annotated[float, Field(ge=0, lt=1)] | None = key(
        "Warmup", "Share of the steps in which the learning rate rises from 0 to its peak.", 0.03
    )
    weight_decay: Annotated[float, Field(ge=0, le=10)] | None = key(
        "Weight decay", "Weight decay of the optimizer; 0 turns it off.", 0.01
    )
    max_grad_norm: Annotated[float, Field(gt=0, le=1e6)] | None = key(
        "Gradient norm", "Gradient clipping: gradients with a larger norm are scaled down to this norm.", 1.0
    )
    epochs: Annotated[float, Field(gt=0, le=10_000)] | None = key(
        "Epochs", "Number of passes over the training rows, also a fraction. Use either this or `max_steps`.", 3
    )
    max_steps: Annotated[int, Field(ge=1, le=10**9)] | None = key(
        "Steps",
        "Number of optimizer steps. Use either this or `epochs`.",
        1000,
        absent="follows from `epochs`",
    )
    global_batch_size: Batch | None = key(
        "Global batch", "Sequences per optimizer step, over all GPUs and gradient accumulation steps.", 64
    )
    micro_batch_size: Batch | None = key(
        "Micro batch", "Sequences per GPU in one forward pass. More sequences need more memory.", 4
    )
    eval_every: OpenFraction | None = key(
        "Evaluation interval",
        "Share of the steps between two evaluations during training; for N in each epoch, 1 / (N x epochs).",
        0.05,
    )
    save_every: OpenFraction | None = key(
        "Checkpoint interval",
        "Share of the steps between two checkpoints; for N in each epoch, 1 / (N x epochs).",
        0.1,
    )
    early_stopping_patience: Annotated[int, Field(ge=0, le=1000)] | None = key(
        "Early stopping",
        "Training stops after this many evaluations without a lower loss, or a higher reward; 0 turns it off.",
        5,
    )
    logging_steps: Annotated[int, Field(ge=1, le=100_000)] | None = key(
        "Logging interval", "Optimizer steps between two logged points of each metric.", 10
    )
    attention: AttentionKernel | None = key(
        "Attention",
        "Implementation of attention: PyTorch's own kernels, or an extra package.",
        "sdpa",
        "torch_varlen",
        default=AUTO,
    )
    packing: Literal["auto"] | bool | None = key(
        "Packing", "Pack several short rows into sequences of full length.", True, default=AUTO
    )
    sampling: Literal["auto", "similar-lengths", "random"] | None = key(
        "Order of the rows",
        "Which rows share a batch: those of similar length need little padding; random ones mix lengths in every step.",
        "random",
        default=AUTO,
    )
    curriculum: Curriculum = table(
        "Curriculum learning",
        "Train on easy rows first in every epoch, ordered by length or by a column. Without this table the order is "
        "random, of rows of similar length where batches are made of these (LOAD-005).",
        {"column": "difficulty"},
    )
    ewc: Elastic = table(
        "Elastic weight consolidation",
        "Hold the weights that matter for `data.general` near their start, against catastrophic forgetting. For full "
        "fine-tuning on one device or with DDP; it needs 8 more bytes per parameter on every GPU.",
        {"strength": 10.0},
    )
    arguments: dict[Line, Any] | None = key(
        "Arguments",
        "Extra keyword arguments for the trainer's configuration, such as SFTConfig. Arguments that recipec sets "
        "itself, and those that do harm in the plan, are an error (E0407). The plan does not reflect the others.",
        {"full_determinism": True},
        absent="no extra arguments",
    )


class AdaptedLearning(Learning):
    """Hyperparameters of a stage that may train adapters."""

    lora: Lora = table(
        "LoRA",
        "LoRA adapters: rank, alpha, targets, dropout and variant. With this table, recipec trains LoRA or QLoRA "
        "unless "
        "`train.adaptation` is set.",
        {"rank": 16, "alpha": 32},
    )
    prompt: Prompt = table(
        "Soft prompt",
        "The soft prompt of prompt tuning and P-tuning, for supervised fine-tuning only. With this table, recipec uses "
        "prompt tuning, or P-tuning with its `encoder_hidden_size`, unless `train.adaptation` is set.",
        {"virtual_tokens": 20},
    )
    prefix: Prefix = table(
        "Trained prefix",
        "The prefix of prefix tuning, for supervised fine-tuning only. With this table, recipec uses prefix tuning "
        "unless `train.adaptation` is set.",
        {"virtual_tokens": 20},
    )
    bottleneck: Bottleneck = table(
        "Bottleneck adapters",
        "Bottleneck adapters: their width and place. With this table, recipec trains bottleneck adapters unless "
        "`train.adaptation` is set.",
        {"reduction_factor": 16},
    )


class _General(AdaptedLearning):
    adaptation: Adaptation | None = key(
        "Adaptation",
        "What is trained: all weights, or an adapter on a frozen base model.",
        *families(),
        default=AUTO,
    )
    quantization: Quantization | None = key(
        "Quantization", "Quantization of the frozen base model during adapter training.", *BASES, default=AUTO
    )
    precision: Precision | None = key(
        "Precision", "Number format of the forward and backward pass.", "bf16", default=AUTO
    )
    loop: TrainingLoop | None = key(
        "Loop",
        "What runs the training steps: TRL's trainer for the method, or a plain loop in train.py for teams that want "
        "no "
        "Trainer.",
        *LOOPS,
        absent="TRL's trainer for the method",
    )
    strategy: Strategy | None = key(
        "Strategy", "How training is distributed over GPUs and what they shard.", *STRATEGIES, default=AUTO
    )
    tensor_parallel: Annotated[int, Field(ge=1, le=8)] | None = key(
        "Tensor parallel",
        "Tensor parallelism: number of GPUs that share each layer.",
        8,
        absent="tensor parallelism is planned only if nothing else fits, and no bundle is built with it (E0410)",
    )
    context_parallel: Annotated[int, Field(ge=1, le=1024)] | None = key(
        "Context parallel",
        "Context parallelism: number of GPUs that share each sequence.",
        2,
        absent="context parallelism is planned only if nothing else fits, and no bundle is built with it (E0410)",
    )
    expert_parallel: Annotated[int, Field(ge=1, le=8)] | None = key(
        "Expert parallel",
        "Expert parallelism: number of GPUs that share the experts of a layer. A bundle is built with it for "
        'pretraining with `train.loop = "deepspeed"` (DeepSpeed-MoE); with FSDP it can only be planned (E0410).',
        8,
        absent="1; more where nothing else fits",
    )
    experts: DispatchedExperts = table(
        "Experts",
        "The experts of a mixture in layers of DeepSpeed-MoE, with a capacity: for pretraining with "
        '`train.loop = "deepspeed"` and ZeRO-1 or ZeRO-2.',
        {"capacity_factor": 1.5},
    )
    offload: Offload | None = key(  # DeepSpeed 0.19.8, run: loss 5.21 without a break, 5.83 resumed
        "Offload",
        "CPU offload to host memory. NVMe offload is not supported: DeepSpeed resumes such a run from the wrong "
        "weights.",
        *OFFLOADS,
        default=AUTO,
    )
    activation_checkpointing: bool | None = key(
        "Activation checkpointing",
        "Gradient (activation) checkpointing: recompute activations in the backward pass instead of keeping them.",
        True,
    )
    recompute_every: Annotated[int, Field(ge=1, le=64)] | None = key(
        "Checkpoint every n layers",
        "Selective gradient checkpointing: checkpoint one of every n layers; the others keep their activations.",
        2,
        absent='1 with gradient checkpointing; more with `goal.priority = "speed"` if memory allows it',
    )
    activation_offload: bool | None = key(
        "Activation offload",
        "Keep the inputs of checkpointed layers in host memory until the backward pass.",
        True,
        absent="only if nothing simpler fits",
    )
    compile: bool | None = key(
        "Compile", "Compile the model with torch.compile, which takes minutes at the start of training.", True
    )
    fp8: bool | None = key(
        "FP8 layers",
        "Multiply in FP8 in the linear layers of the decoder, through torchao and torch.compile. For full fine-tuning "
        "in bf16 on GPUs of compute capability 9.0 or later, on one device, or with DDP, which was not run.",
        True,
    )
    optimizer: Optimizer | None = key(
        "Optimizer", "Optimizer, and the format in which it keeps its states.", "adamw", default=AUTO
    )
    keep_checkpoints: Annotated[int, Field(ge=2, le=1000)] | None = key(
        "Checkpoints kept", "Number of checkpoints on disk, including the latest and the best.", 3
    )


ADAPTED = tuple(name for name, row in METHODS.items() if any(ADAPTATIONS[kind].table for kind in row.adaptations))


def _stage_table(row: Method) -> tuple[Any, Any]:
    """The table of [train] whose values hold for one stage only."""
    title = f"{row.title[:1].upper()}{row.title[1:]} stage"
    example = {"learning_rate": row.learning_rate[0].value}
    learning = AdaptedLearning if row.name in ADAPTED else Learning
    return learning, table(
        title, "Values of [train] for this stage only. They replace those in [train].", example, alias=row.name
    )


_OF_STAGES = re.compile(rf"\btrain\.((?:{'|'.join(AdaptedLearning.model_fields)})\b(?:\.\w+)*)")


def of_stage(text: str, stage: str, own: Callable[[str], bool]) -> str:
    """A text whose keys of [train] that a stage has for its `own` are those of [train.STAGE]."""
    return _OF_STAGES.sub(lambda key: f"train.{stage}.{key[1]}" if own(key[1]) else key[0], text)


def attribute(stage: str) -> str:
    """The attribute of Train that holds a stage's table."""
    return stage.replace("-", "_")


Train = create_model(
    "Train",
    __base__=_General,
    __doc__="Values that recipec would otherwise decide. Your value is used; outside the usual range it raises W0501.",
    **{attribute(name): _stage_table(row) for name, row in METHODS.items()},
)
