"""The section [data]: the rows that are learned from.

Its sections and the formats of rows are taken from the rows of recipec/axes.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, create_model, model_validator

from recipec.axes import CARRIED, ROW_FORMATS, SECTIONS, DataSection
from recipec.recipe.fields import (
    AUTO,
    Count,
    Line,
    OneOrMany,
    OpenFraction,
    Prose,
    Section,
    TemplateName,
    key,
    one_of,
)

Format = one_of({AUTO: "recognized from the first file"} | {row.name: row.means for row in ROW_FORMATS.values()})
Overflow = one_of(
    {
        "drop": "leave longer examples out",
        "truncate": "cut their end off",
        "split": "cut raw text into several examples",
    }
)
Carry = one_of({row.name: row.means for row in CARRIED.values()})
Reasoning = one_of(
    {
        "keep": "each answer is learned with its thought, in a row of its own",
        "template": "conversations are one row, with the thoughts that the chat template shows",
        "strip": "thoughts are taken out",
        "off": "thoughts are taken out, and answers are learned in the chat template's mode without thinking: the "
        "empty thought before them is given, not learned",
    }
)
LossOn = one_of({"answers": "everything that the assistant says", "last-answer": "the last answer of a conversation"})
DATA_SOURCES = (*SECTIONS, "eval", "test")  # the keys of [data] that name files
# The columns that each format conventionally has; `columns` maps them to the names in the files.
COLUMNS = {row.name: tuple(role.name for role in row.roles) for row in ROW_FORMATS.values()}


class DataSource(Section):
    """Files by path or glob, or a data set of the hub."""

    path: Line | None = key(
        "Path",
        "A file, or a glob of files, of the rows. Excludes hub.",
        "data/train.jsonl",
        "data/*.jsonl",
        absent="hub is needed",
    )
    hub: Line | None = key(
        "Hub",
        "The id of a data set on the Hugging Face Hub. Excludes path.",
        "HuggingFaceH4/ultrachat_200k",
        absent="path is needed",
    )
    split: Line | None = key(
        "Split", "The split of the data set on the Hub that is read.", "train_sft", default="train"
    )
    subset: Line | None = key(
        "Subset", "The configuration of the data set on the Hub that is read.", "en", absent="the data set's default"
    )
    revision: Line | None = key(
        "Revision",
        "Branch, tag or commit of the data set on the Hugging Face Hub.",
        "main",
        absent="the default branch on the Hub",
    )
    weight: Annotated[float, Field(gt=0, le=1000)] | None = key(
        "Weight", "How often a row of this source is learned in a pass: 0.5 takes half of its rows.", 0.5, default=1
    )
    take: Count | None = key(
        "Rows taken",
        "Only the first rows of the source, as many as this, are read. A data set of the Hub is streamed, so that no "
        "others come to the disk.",
        100_000,
        absent="all rows",
    )
    format: Format | None = key(
        "Format of the source",
        "How the rows of this source are written, where the sources differ.",
        *ROW_FORMATS,
        absent="data.format, or recognized from the rows of the source",
    )
    columns: dict[Line, Line] | None = key(
        "Columns of the source",
        "The names in this source of the conventional columns.",
        {"messages": "dialog"},
        absent="data.columns",
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

    stratify: Line | None = key(
        "Stratify",
        "Give every part the same mix of this column's values.",
        "topic",
        absent="rows are drawn without regard to a column",
    )
    group: Line | None = key(
        "Group",
        "Keep rows with the same value of this column in one part.",
        "customer",
        absent="rows are drawn without regard to a column",
    )
    time: Line | None = key(
        "Time",
        "Evaluate on the latest rows by this column.",
        "date",
        absent="rows are drawn without regard to a column",
    )


def _sources(row: DataSection) -> tuple[Any, Any]:
    needed = "the recipe is refused where a stage learns from it"
    return Sources | None, key(row.title, row.description, *row.examples, absent=needed)


_Learned = create_model("_Learned", __base__=Section, **{name: _sources(row) for name, row in SECTIONS.items()})


class Data(_Learned):
    """What the model learns from."""

    eval: Sources | None = key(
        "Evaluation data",
        "Rows for evaluation during and after training, which training does not see. Excludes eval_fraction.",
        "data/eval.jsonl",
        absent="a share of the training data, eval_fraction",
    )
    eval_fraction: OpenFraction | None = key(
        "Evaluation share", "The share of the training data kept for evaluation. Excludes eval.", 0.1
    )
    test: Sources | None = key(
        "Test data",
        "Rows that neither training nor any choice during it sees; evaluate.py measures the model on them before "
        "and after training. Excludes test_fraction.",
        "data/test.jsonl",
        absent="a share of the training data, test_fraction",
    )
    test_fraction: OpenFraction | None = key(
        "Test share", "The share of the training data kept for evaluate.py alone. Excludes test.", 0.1
    )
    split: SplitBy | None = key(
        "Split by",
        "What keeps the parts apart: one of its keys.",
        {"group": "customer"},
        absent="rows are drawn at random",
    )
    format: Format | None = key(
        "Format", "How the rows are written, and by that which columns they have.", *ROW_FORMATS, default=AUTO
    )
    columns: dict[Line, Line] | None = key(
        "Columns",
        "The names in your files of the conventional columns.",
        {"prompt": "question"},
        absent="the conventional names of the format, and their aliases",
    )
    ignore: Annotated[list[Line], Field(min_length=1, max_length=256)] | None = key(
        "Ignored columns",
        "Columns of the rows, and fields of their messages, that are not meant to be read.",
        ["id", "source"],
        absent="columns that nothing reads are warned about, and refused where they say how rows are to be learned",
    )
    carry: Annotated[list[Carry], Field(min_length=1)] | None = key(
        "Carried",
        "What rows hold beside the columns of their format, where the first rows do not show it.",
        ["tools"],
        absent="what the first rows hold; what later rows hold beside it is refused by prepare_data.py",
    )
    reasoning: Reasoning | None = key(
        "Reasoning",
        "What becomes of thoughts: `reasoning_content`, or the text between <think> and </think>.",
        "keep",
        absent="`keep`; refused where a conversation has several answers and the rows hold thoughts",
    )
    loss_on: LossOn | None = key(
        "Loss on", "The answers of a conversation that are learned.", "last-answer", default="answers"
    )
    system: Prose | None = key(
        "System prompt",
        "The system prompt of rows that have none.",
        "You are a helpful assistant.",
        absent="rows without one have none, beside what the chat template adds",
    )
    template: TemplateName | None = key(
        "Chat template",
        "How messages become text: `model` takes the chat template of the model, `chatml` ChatML, `plain` no markers, "
        "./file.jinja your own.",
        "chatml",
        default=AUTO,
    )
    max_length: Annotated[int, Field(ge=8, le=4_194_304)] | None = key(
        "Longest example", "In tokens; `overflow` says what happens to longer ones.", 2048
    )
    overflow: Overflow | None = key("Overflow", "What happens to examples that are longer than max_length.", "truncate")
    examples: Count | None = key(
        "Examples",
        "How many rows there are; set it where they are not read at compile time.",
        12_000,
        absent="counted from the files",
    )
    tokens_per_example: Annotated[int, Field(ge=1, le=4_194_304)] | None = key(
        "Tokens per example",
        "The mean length of a row in tokens, of a pair with its longer answer; set it where rows are not read at "
        "compile time.",
        600,
        absent="measured from the files",
    )
