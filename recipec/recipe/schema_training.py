"""The sections [data] and [train]: what the model learns from, and every decision that a recipe may fix."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from recipec.recipe.fields import (
    Count,
    Line,
    Meanings,
    OneOrMany,
    OpenFraction,
    Section,
    TemplateName,
    key,
    table,
)

Format = Annotated[
    Literal["auto", "text", "instruction", "chat", "prompt-completion", "preference"],
    Meanings(
        "recognised from the first file",
        "raw text",
        "an instruction, perhaps an input, and the output",
        "lists of messages with roles",
        "a prompt and its completion",
        "a prompt with a chosen and a rejected answer",
    ),
]
Overflow = Annotated[
    Literal["drop", "truncate", "split"],
    Meanings("leave longer examples out", "cut their end off", "cut raw text into several examples"),
]

ADAPTED = ("sft", "dpo", "continue-pretrain")  # stages that may train adapters instead of all weights
STAGES = (*ADAPTED, "pretrain")

# The columns that each format conventionally has; `columns` maps them to the names in the files.
COLUMNS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "instruction": ("instruction", "input", "output"),
    "chat": ("messages",),
    "prompt-completion": ("prompt", "completion"),
    "preference": ("prompt", "chosen", "rejected"),
}


class DataSource(Section):
    """Files by path or glob, or a data set of the hub."""

    path: Line | None = key("Path", "A file or a glob. Excludes hub.", "data/train.jsonl", "data/*.jsonl")
    hub: Line | None = key("Hub", "The id of a data set on the hub. Excludes path.", "HuggingFaceH4/ultrachat_200k")
    split: Line | None = key("Split", "The split of the hub data set.", "train_sft", default="train")
    subset: Line | None = key("Subset", "The configuration of the hub data set.", "en")
    revision: Line | None = key("Revision", "Branch, tag or commit on the hub.", "main")
    weight: Annotated[float, Field(gt=0, le=1000)] | None = key(
        "Weight", "How often this source is drawn, relative to the others.", 0.5, default=1
    )

    @model_validator(mode="before")
    @classmethod
    def _path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        source = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "title": "Path", "description": "A file or a glob."}, dict(source)]}


Sources = Annotated[list[DataSource], OneOrMany, Field(min_length=1, max_length=1024)]


class Split(Section):
    """What keeps the parts of the data apart; exactly one key."""

    stratify: Line | None = key("Stratify", "Give every part the same mix of this column's values.", "label")
    group: Line | None = key("Group", "Keep rows with the same value of this column in one part.", "customer")
    time: Line | None = key("Time", "Evaluate on the latest rows by this column.", "date")


class Data(Section):
    """What the model learns from."""

    train: Sources | None = key(
        "Training data", "A path, a glob, a table, or a list of these.", "data/train.jsonl", ["a.jsonl", "b.jsonl"]
    )
    preferences: Sources | None = key("Preference pairs", "Pairs for the task `align`.", "data/pairs.jsonl")
    eval: Sources | None = key("Evaluation data", "Excludes eval_fraction.", "data/eval.jsonl")
    eval_fraction: OpenFraction | None = key(
        "Evaluation share", "The share of the training data kept for evaluation. Excludes eval.", 0.1
    )
    test: Sources | None = key("Test data", "Looked at once, at the end. Excludes test_fraction.", "data/test.jsonl")
    test_fraction: OpenFraction | None = key(
        "Test share", "The share of the training data kept for the final test. Excludes test.", 0.1
    )
    split: Split | None = key("Split by", "What keeps the parts apart: one of its keys.", {"group": "customer"})
    format: Format | None = key("Format", "How the rows are written.", "chat", default="auto")
    columns: dict[Line, Line] | None = key(
        "Columns", "The names in your files of the conventional columns.", {"prompt": "question"}
    )
    template: TemplateName | None = key(
        "Chat template", "`auto`, `model`, `chatml`, `plain`, or ./file.jinja.", "chatml", default="auto"
    )
    max_length: Annotated[int, Field(ge=8, le=4_194_304)] | None = key(
        "Longest example", "In tokens; `overflow` says what happens to longer ones.", 2048
    )
    overflow: Overflow | None = key("Overflow", "What happens to longer examples.", "truncate")
    examples: Count | None = key("Examples", "How many rows there are; measured from the files when absent.", 12_000)
    tokens_per_example: Annotated[int, Field(ge=1, le=4_194_304)] | None = key(
        "Tokens per example", "The mean length of a row; measured from the files when absent.", 600
    )


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
