"""The sections [data], [alignment] and [train]: what is learned from, and every decision that a recipe may fix.

What the four axes decide (recipec/axes) is taken from their rows: methods, strategies, adaptations and row formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, model_validator

from recipec.axes import (
    ADAPTATIONS,
    BASES,
    METHODS,
    NAMED_MODELS,
    OFFLOADS,
    ROW_FORMATS,
    SECTIONS,
    STRATEGIES,
    DataSection,
    Method,
    Own,
    families,
)
from recipec.axes.tasks import NO_ALIGNMENT
from recipec.recipe.fields import (
    AUTO,
    Count,
    Line,
    OneOrMany,
    OpenFraction,
    Section,
    TemplateName,
    key,
    one_of,
    required,
    table,
)

Format = one_of({AUTO: "recognized from the first file"} | {row.name: row.means for row in ROW_FORMATS.values()})
Overflow = one_of(
    {
        "drop": "leave longer examples out",
        "truncate": "cut their end off",
        "split": "cut raw text into several examples",
    }
)
DATA_SOURCES = (*SECTIONS, "eval", "test")  # the keys of [data] that name files
# The columns that each format conventionally has; `columns` maps them to the names in the files.
COLUMNS = {row.name: tuple(role.name for role in row.roles) for row in ROW_FORMATS.values()}


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


class SplitBy(Section):
    """What keeps the parts of the data apart; exactly one key."""

    stratify: Line | None = key("Stratify", "Give every part the same mix of this column's values.", "label")
    group: Line | None = key("Group", "Keep rows with the same value of this column in one part.", "customer")
    time: Line | None = key("Time", "Evaluate on the latest rows by this column.", "date")


def _sources(row: DataSection) -> tuple[Any, Any]:
    return Sources | None, key(row.title, row.description, *row.examples)


_Learned = create_model("_Learned", __base__=Section, **{name: _sources(row) for name, row in SECTIONS.items()})


class Data(_Learned):
    """What the model learns from."""

    eval: Sources | None = key("Evaluation data", "Excludes eval_fraction.", "data/eval.jsonl")
    eval_fraction: OpenFraction | None = key(
        "Evaluation share", "The share of the training data kept for evaluation. Excludes eval.", 0.1
    )
    test: Sources | None = key("Test data", "Looked at once, at the end. Excludes test_fraction.", "data/test.jsonl")
    test_fraction: OpenFraction | None = key(
        "Test share", "The share of the training data kept for the final test. Excludes test.", 0.1
    )
    split: SplitBy | None = key("Split by", "What keeps the parts apart: one of its keys.", {"group": "customer"})
    format: Format | None = key("Format", "How the rows are written.", *ROW_FORMATS, default=AUTO)
    columns: dict[Line, Line] | None = key(
        "Columns", "The names in your files of the conventional columns.", {"prompt": "question"}
    )
    template: TemplateName | None = key(
        "Chat template", "`auto`, `model`, `chatml`, `plain`, or ./file.jinja.", "chatml", default=AUTO
    )
    max_length: Annotated[int, Field(ge=8, le=4_194_304)] | None = key(
        "Longest example", "In tokens; `overflow` says what happens to longer ones.", 2048
    )
    overflow: Overflow | None = key("Overflow", "What happens to longer examples.", "truncate")
    examples: Count | None = key("Examples", "How many rows there are; measured from the files when absent.", 12_000)
    tokens_per_example: Annotated[int, Field(ge=1, le=4_194_304)] | None = key(
        "Tokens per example", "The mean length of a row; measured from the files when absent.", 600
    )


def _own_keys() -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The keys of [alignment] that set the methods' own hyperparameters; several methods can share one."""
    rows = [own for method in METHODS.values() for own in method.own]
    for name in dict.fromkeys(own.key for own in rows):
        shared = [own for own in rows if own.key == name]
        described = " ".join(dict.fromkeys(own.description for own in shared))
        yield name, (_value_of(shared) | None, key(shared[0].title, described, shared[0].value))


def _value_of(shared: list[Own]) -> Any:
    """All values that the methods take between them: what belongs to another method is refused by name later."""
    kinds = {own.values is None for own in shared}
    assert len(kinds) == 1, f"{' and '.join(own.id for own in shared)} share a key: a number and a name"
    if kinds == {True}:
        least, most = min((own.above, not own.closed) for own in shared), max(own.most for own in shared)
        return Annotated[float, Field(**{"gt" if least[1] else "ge": least[0]}, le=most)]
    values = dict.fromkeys(value for own in shared for value in own.values)
    return one_of({value: _meanings(own.values.get(value) for own in shared) for value in values})


def _meanings(meanings: Iterable[str | None]) -> str:
    return "; ".join(dict.fromkeys(filter(None, meanings)))


class ModelSource(Section):
    """A model beside the one that is trained, as [model] says it of that one."""

    name: Line = required("Model", "A name or alias of the catalog, a hub id, or the ./folder of a model.", "./teacher")
    like: Line | None = key(
        "Like", "For a model outside the catalog: a catalog name or ./config.json of the same shape.", "Qwen/Qwen3-8B"
    )
    revision: Line | None = key("Revision", "Branch, tag or commit on the hub.", "main")

    @model_validator(mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        source = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "title": "Model", "description": "Its name."}, dict(source)]}


def _named_models() -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The keys of [alignment] that name the models which methods run beside their own."""
    for name in dict.fromkeys(name for method in METHODS.values() for name in method.named_models):
        row = NAMED_MODELS[name]
        yield name, (ModelSource | None, key(row.title, row.description, *row.examples))


_NAMED = {row.alignment: row.means for row in METHODS.values() if row.alignment}
_ALIGNED = " or ".join(dict.fromkeys(f"`{row.task}`" for row in METHODS.values() if row.is_set_in_alignment))
_AlignmentMethod = one_of({AUTO: "decided from the task and the data", NO_ALIGNMENT: "no preference stage"} | _NAMED)

Alignment = create_model(
    "Alignment",
    __base__=Section,
    __doc__=f"What the model is brought near to: what people prefer, or another model; for the task {_ALIGNED}.",
    method=(_AlignmentMethod | None, key("Method", "The preference method.", *_NAMED, default=AUTO)),
    **dict(_named_models()),
    **dict(_own_keys()),
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
    max_steps: Annotated[int, Field(ge=1, le=10**9)] | None = key("Steps", "Optimizer steps. Excludes epochs.", 1000)
    global_batch_size: Batch | None = key("Global batch", "Examples per optimizer step over all GPUs.", 64)
    micro_batch_size: Batch | None = key("Micro batch", "Examples per GPU and forward pass.", 4)
    eval_every: OpenFraction | None = key("Evaluate every", "Share of the run between evaluations.", 0.05)
    save_every: OpenFraction | None = key("Save every", "Share of the run between checkpoints.", 0.1)
    packing: Literal["auto"] | bool | None = key("Packing", "Join short examples to full length.", True, default=AUTO)
    arguments: dict[Line, Any] | None = key(
        "Arguments",
        "Keywords passed to the trainer as they are; not those that recipec decides.",
        {"neftune_noise_alpha": 5.0},
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
        *OFFLOADS,
        default=AUTO,
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
