"""The section [data]: what the model learns from."""

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
