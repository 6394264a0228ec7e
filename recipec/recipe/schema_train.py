"""The section [train]: every decision that a recipe may fix."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from recipec.recipe.fields import Line, Meanings, OpenFraction, Section, key, table

Adaptation = Annotated[
    Literal["auto", "full", "lora", "qlora"],
    Meanings("decided", "train every weight", "train low-rank adapters", "lora on a base quantised to nf4"),
]
Quantization = Annotated[
    Literal["auto", "none", "nf4"],
    Meanings("decided", "the base as it is", "the frozen base in 4-bit NormalFloat"),
]
Precision = Annotated[
    Literal["auto", "bf16", "fp16", "fp32"],
    Meanings("the best that the GPU computes", "bfloat16", "half precision with loss scaling", "single precision"),
]
Strategy = Annotated[
    Literal["auto", "single", "ddp", "fsdp", "hsdp", "zero1", "zero2", "zero3"],
    Meanings(
        "decided from the model, the GPUs and their link",
        "one process on one GPU",
        "a full copy on each GPU",
        "PyTorch's fully sharded data parallel",
        "the same with shards within groups of GPUs and copies between them",
        "DeepSpeed: optimizer states sharded",
        "DeepSpeed: gradients and optimizer states sharded",
        "DeepSpeed: weights sharded as well",
    ),
]
Offload = Annotated[
    Literal["auto", "none", "cpu"],
    Meanings("decided", "everything stays on the GPUs", "optimizer states in host memory"),
]
AttentionKernel = Annotated[
    Literal["auto", "sdpa", "flash_attention_2", "eager"],
    Meanings("decided", "PyTorch's fused kernels", "the flash-attn package", "plain matrix products"),
]
Optimizer = Annotated[
    Literal["auto", "adamw", "adamw-8bit", "paged-adamw", "paged-adamw-8bit", "adafactor", "lion", "lion-8bit", "sgd"],
    Meanings(
        "decided",
        "AdamW, fused",
        "its states in 8 bits",
        "fp32 states that spill to host memory",
        "8-bit states that spill to host memory",
        "second moments as rows and columns, no first ones",
        "one state, and steps of one size for all parameters",
        "its state in 8 bits",
        "no state: a step along the gradient",
    ),
]
Schedule = Annotated[
    Literal["cosine", "linear", "constant", "warmup-stable-decay"],
    Meanings(
        "falls along a cosine", "falls along a line", "stays after the warmup", "stays, and falls over the last tenth"
    ),
]
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
    max_steps: Annotated[int, Field(ge=1, le=10**9)] | None = key("Steps", "Optimizer steps. Excludes epochs.", 1000)
    global_batch_size: Batch | None = key("Global batch", "Examples per optimizer step over all GPUs.", 64)
    micro_batch_size: Batch | None = key("Micro batch", "Examples per GPU and forward pass.", 4)
    eval_every: OpenFraction | None = key("Evaluate every", "Share of the run between evaluations.", 0.05)
    save_every: OpenFraction | None = key("Save every", "Share of the run between checkpoints.", 0.1)
    packing: Literal["auto"] | bool | None = key("Packing", "Join short examples to full length.", True, default="auto")
    arguments: dict[Line, Any] | None = key(
        "Arguments",
        "Keywords passed to the trainer as they are; not those that recipec decides.",
        {"neftune_noise_alpha": 5.0},
    )


class AdaptedLearning(Learning):
    """How a stage learns that may train adapters."""

    lora: Lora = table("LoRA", "The shape of the adapters.", {"rank": 16, "alpha": 32})


class Train(AdaptedLearning):
    """Decisions that you make yourself: your value wins, and the rule still says what it thinks of it."""

    adaptation: Adaptation | None = key("Adaptation", "What is trained.", "lora", default="auto")
    quantization: Quantization | None = key("Quantization", "How the frozen base is stored.", "nf4", default="auto")
    precision: Precision | None = key("Precision", "What it computes in.", "bf16", default="auto")
    strategy: Strategy | None = key("Strategy", "How the work is spread over GPUs.", "fsdp", default="auto")
    tensor_parallel: Annotated[int, Field(ge=1, le=8)] | None = key(
        "Tensor parallel", "GPUs of a node that share every matrix product of a layer.", 8
    )
    context_parallel: Annotated[int, Field(ge=1, le=1024)] | None = key(
        "Context parallel", "GPUs that share the tokens of one sequence.", 2
    )
    expert_parallel: Annotated[int, Field(ge=1, le=8)] | None = key(
        "Expert parallel", "GPUs that share the experts of a layer.", 8
    )
    offload: Offload | None = key(  # DeepSpeed 0.19.8, run: loss 5.21 without a break, 5.83 resumed
        "Offload",
        "What leaves the GPUs between uses. Not to NVMe: DeepSpeed resumes such a run from the wrong weights.",
        "cpu",
        default="auto",
    )
    activation_checkpointing: bool | None = key(
        "Activation checkpointing", "Recompute activations in the backward pass instead of keeping them.", True
    )
    recompute_every: Annotated[int, Field(ge=1, le=64)] | None = key(
        "Recomputed layers", "Every how many layers one is recomputed; the others keep their activations.", 2
    )
    activation_offload: bool | None = key(
        "Activation offload", "What recomputed layers start from waits in host memory.", True
    )
    attention: AttentionKernel | None = key("Attention", "The attention kernel.", "sdpa", default="auto")
    compile: bool | None = key("Compile", "Compile the model with torch.compile.", True)
    optimizer: Optimizer | None = key("Optimizer", "The optimizer and its states.", "adamw", default="auto")
    keep_checkpoints: Annotated[int, Field(ge=2, le=1000)] | None = key(
        "Checkpoints kept", "The latest and the best count.", 3
    )
    sft: AdaptedLearning = table("Supervised stage", "Values of this stage only.", {"learning_rate": 2e-4})
    dpo: AdaptedLearning = table("Preference stage", "Values of this stage only.", {"learning_rate": 5e-6})
    continue_pretrain: AdaptedLearning = table(
        "Raw-text stage", "Values of this stage only.", {"learning_rate": 1e-5}, alias="continue-pretrain"
    )
    pretrain: Learning = table("Pretraining stage", "Values of this stage only.", {"learning_rate": 3e-4})
