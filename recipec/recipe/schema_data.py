"""The section [data]: the rows that are learned from.

Its sections and the formats of rows are taken from the rows of recipec/axes.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, create_model, model_validator

from recipec.axes import CARRIED, ROW_FORMATS, SECTIONS, DataSection
from recipec.recipe.fields import (
    AUTO,
    ColumnName,
    Count,
    Line,
    OneOrMany,
    OpenFraction,
    Revision,
    Section,
    Spoken,
    TemplateName,
    key,
    one_of,
)

Format = one_of(
    {AUTO: "recognized from the columns of the first file"} | {row.name: row.means for row in ROW_FORMATS.values()}
)
Overflow = one_of(
    {
        "drop": "leave out longer rows",
        "truncate": "cut off the end of longer rows",
        "split": "cut longer raw text into several rows",
    }
)
Carry = one_of({row.name: row.means for row in CARRIED.values()})
Reasoning = one_of(
    {
        "keep": "each answer is trained with its thought, in a separate row",
        "template": "each conversation is one row where the chat template can mark its answers, with the thoughts "
        "that it shows",
        "strip": "thoughts are removed",
        "off": "thoughts are removed, and answers are trained in the chat template's mode without thinking: the empty "
        "thought before an answer is part of the prompt",
    }
)
LossOn = one_of({"answers": "all answers of a conversation", "last-answer": "only the last answer of a conversation"})
OpeningAnswers = one_of(
    {
        "skip": "leave out what the assistant says before the first question",
        "learn": "train on it like on every other answer",
    }
)
Incomplete = one_of(
    {"refuse": "stop, and name the rows", "skip": "leave out these rows, and count what each of them lacks"}
)
GENERAL = "general"  # the key of rows that the model should stay good at
DATA_SOURCES = (*SECTIONS, "eval", "test", GENERAL)  # the keys of [data] that name files
# The columns that each format conventionally has; `columns` maps them to the names in the files.
COLUMNS = {row.name: tuple(role.name for role in row.roles) for row in ROW_FORMATS.values()}

TokensPerExample = Annotated[int, Field(ge=1, le=4_194_304)]
Columns = Annotated[dict[Line, Line], Field(max_length=64)]  # more than all formats have


class DataSource(Section):
    """Files by path or glob, or a data set of the Hugging Face Hub."""

    path: Line | None = key(
        "Path",
        "A file, or a glob of files, relative to the recipe. Use either this or `hub`.",
        "data/train.jsonl",
        "data/*.jsonl",
        absent="none; `hub` is then required",
    )
    hub: Line | None = key(
        "Hub",
        "Id of a data set on the Hugging Face Hub. Use either this or `path`.",
        "HuggingFaceH4/ultrachat_200k",
        absent="none; `path` is then required",
    )
    split: Line | None = key("Split", "Split of the data set on the Hub.", "train_sft", default="train")
    subset: Line | None = key(
        "Subset", "Configuration (subset) of the data set on the Hub.", "en", absent="the default of the data set"
    )
    revision: Revision | None = key(
        "Revision",
        "Branch, tag or commit of the data set on the Hugging Face Hub.",
        "main",
        absent="the default branch on the Hub",
    )
    weight: Annotated[float, Field(gt=0, le=1000)] | None = key(
        "Weight",
        "How often each row of this source is used per epoch: 0.5 uses half of the rows, 2 uses each row twice. An "
        "epoch ends when all sources have been used so often, so no source runs out before the others.",
        0.5,
        default=1,
    )
    take: Count | None = key(
        "Rows taken",
        "Read only this many rows from the start of the source. A data set of the Hub is then streamed, so that the "
        "remaining rows are not downloaded.",
        100_000,
        absent="all rows",
    )
    examples: Count | None = key(
        "Rows of the source",
        "Number of rows of this source before `weight`, if sections or sources differ in size. Set it for data that "
        "recipec cannot read at compile time.",
        3_000,
        absent="`data.examples`, or counted in the files",
    )
    tokens_per_example: TokensPerExample | None = key(
        "Tokens per example of the source",
        "Mean length of a row of this source in tokens, if sections or sources differ. Set it for data that recipec "
        "cannot read at compile time.",
        9_000,
        absent="`data.tokens_per_example`, or estimated from the sampled rows",
    )
    format: Format | None = key(
        "Format of the source",
        "Format of the rows of this source, if sources have different formats.",
        *ROW_FORMATS,
        absent="`data.format`, or recognized from the columns of the source",
    )
    columns: Columns | None = key(
        "Columns of the source",
        'Column names in this source, if they differ: `{ messages = "dialog" }` reads the messages from `dialog`.',
        {"messages": "dialog"},
        absent="`data.columns`",
    )

    @model_validator(mode="before")
    @classmethod
    def _path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        source = handler.resolve_ref_schema(handler(schema))
        return {
            "anyOf": [
                {
                    "type": "string",
                    "title": "Path",
                    "description": "A file, or a glob of files, relative to the recipe.",
                },
                dict(source),
            ]
        }


Sources = Annotated[list[DataSource], OneOrMany, Field(min_length=1, max_length=1024)]


class SplitBy(Section):
    """How training, evaluation and test splits are drawn; exactly one key."""

    stratify: Line | None = key(
        "Stratify",
        "Column whose values keep the same proportions in every split, for example a label.",
        "topic",
        absent="rows are drawn without regard to a column",
    )
    group: Line | None = key(
        "Group",
        "Column that identifies a group, for example a customer: all rows of a group stay in one split.",
        "customer",
        absent="rows are drawn without regard to a column",
    )
    time: Line | None = key(
        "Time",
        "Column to sort by, for example a date: the latest rows become the evaluation and test splits.",
        "date",
        absent="rows are drawn without regard to a column",
    )


def _sources(row: DataSection) -> tuple[Any, Any]:
    needed = "none; required if a stage trains on it"
    return Sources | None, key(row.title, row.description, *row.examples, absent=needed)


_Learned = create_model("_Learned", __base__=Section, **{name: _sources(row) for name, row in SECTIONS.items()})


class Data(_Learned):
    """Training, evaluation and test data, and how rows are read."""

    eval: Sources | None = key(
        "Evaluation data",
        "Evaluation data, measured during and after training. Training does not use them. Use either this or "
        "`eval_fraction`.",
        "data/eval.jsonl",
        absent="split off the training data, see `eval_fraction`",
    )
    eval_fraction: OpenFraction | None = key(
        "Evaluation share", "Share of the training data used as the evaluation split. Use either this or `eval`.", 0.1
    )
    test: Sources | None = key(
        "Test data",
        "Test data, read only by evaluate.py before and after training: neither training nor the choice of the best "
        "checkpoint uses them. Use either this or `test_fraction`.",
        "data/test.jsonl",
        absent="split off the training data, see `test_fraction`",
    )
    general: Sources | None = key(
        "General data",
        "General rows that the model does well on before training and should still do well on afterwards, in a format "
        "of the training rows. Training replays a share of them, see `replay`, unless `train.ewc` is set without "
        "`replay`: elastic weight consolidation only measures on them which weights matter. Same forms as `eval`.",
        "data/general.jsonl",
        absent="none; required with `replay` and with `train.ewc`",
    )
    replay: OpenFraction | None = key(
        "Replay",
        "Share of general rows in the training data, against forgetting, as a share of tokens: with 0.2, a fifth of "
        "the tokens of the training rows are of `general`. No general row is repeated, and evaluation and test splits "
        "are only of your rows. For stages of supervised fine-tuning and continued pretraining.",
        0.2,
        absent="0.2 where `general` is set without `train.ewc`, else no replay",
    )
    test_fraction: OpenFraction | None = key(
        "Test share", "Share of the training data used as the test split. Use either this or `test`.", 0.1
    )
    split: SplitBy | None = key(
        "Split by",
        "How training, evaluation and test splits are drawn: exactly one of `stratify`, `group` and `time`.",
        {"group": "customer"},
        absent="at random",
    )
    format: Format | None = key(
        "Format",
        "Format of the rows, which decides their columns. Set it for data that recipec cannot read.",
        *ROW_FORMATS,
        default=AUTO,
    )
    columns: Columns | None = key(
        "Columns",
        'Column names in your files, if they differ: `{ prompt = "question" }` reads the prompt from `question`.',
        {"prompt": "question"},
        absent="the usual names of the format, and their aliases",
    )
    ignore: Annotated[list[ColumnName], Field(max_length=256)] | None = key(
        "Ignored columns",
        "Columns of the rows, and fields of their messages, that training should leave out.",
        ["id", "source"],
        absent="none; unused columns raise W0516, and E0308 if they change what should be trained",
    )
    carry: Annotated[list[Carry], Field(min_length=1)] | None = key(
        "Optional content",
        "Optional content of the rows, such as tools or thoughts, that the first rows do not have.",
        ["tools"],
        absent="the content of the sampled rows; prepare_data.py refuses other content in later rows",
    )
    reasoning: Reasoning | None = key(
        "Reasoning",
        "What to do with thoughts: `reasoning_content`, or the text between `<think>` and `</think>`.",
        "keep",
        absent="`keep`; required if conversations with several answers contain thoughts (E0309)",
    )
    loss_on: LossOn | None = key(
        "Loss on", "Which answers of a conversation count in the loss.", "last-answer", default="answers"
    )
    opening_answers: OpeningAnswers | None = key(
        "Opening answers",
        "What to do with messages of the assistant before the first question of a conversation, which answer nothing. "
        "Set it for data such as ShareGPT, where conversations may begin with `gpt`.",
        "skip",
        absent="none; such conversations are refused (E0304)",
    )
    incomplete: Incomplete | None = key(
        "Incomplete rows",
        "What to do with rows that lack what their format needs: a prompt, an answer or a label that is missing or "
        "null, a message without content, or a label that is no rating, such as `unrated`; with rewards, also a column "
        "that a reward function or an environment asks for; with `data.split`, also a value to split by. Set it "
        "for files in which not every answer is rated.",
        "skip",
        default="refuse",
    )
    system: Spoken | None = key(
        "System prompt",
        "System prompt for rows that have no system message.",
        "You are a helpful assistant.",
        absent="no system prompt, except what the chat template adds",
    )
    template: TemplateName | None = key(
        "Chat template",
        "Chat template that turns messages into text: `model` for the model's own, `chatml` for ChatML, `plain` for no "
        "markers, the path of your own, such as `./chat.jinja`, or `auto`: the model's own, and `plain` for a base "
        "model without one.",
        "chatml",
        default=AUTO,
    )
    max_length: Annotated[int, Field(ge=8, le=4_194_304)] | None = key(
        "Maximum length", "Maximum length of a row in tokens; `overflow` decides what happens to longer rows.", 2048
    )
    overflow: Overflow | None = key("Overflow", "What happens to rows that are longer than `max_length`.", "truncate")
    examples: Count | None = key(
        "Examples",
        "Number of rows, before `weight` of sources. Set it for data that recipec cannot read at compile time. Use "
        "either `data.examples` or `examples` of every source.",
        12_000,
        absent="counted in the files",
    )
    tokens_per_example: TokensPerExample | None = key(
        "Tokens per example",
        "Mean length of a row in tokens (of a preference pair: with its longer answer). Set it for data that recipec "
        "cannot read at compile time.",
        600,
        absent="estimated from the sampled rows",
    )


class Evaluate(Section):
    """Sample answers that evaluate.py writes before and after training."""

    samples: Annotated[int, Field(ge=1, le=100_000)] | None = key(
        "Samples", "Number of rows that evaluate.py shows with their answers or scores.", 50, absent="5"
    )
    max_new_tokens: Annotated[int, Field(ge=1, le=131_072)] | None = key(
        "Answer length",
        "Maximum number of tokens per answer that evaluate.py generates.",
        256,
        absent="128; that of training for methods that write answers",
    )
