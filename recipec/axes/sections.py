"""The sections of [data] that hold what is learned from. One row each; a method says which of them is its own."""

from __future__ import annotations

from msgspec import Struct


class DataSection(Struct, frozen=True, kw_only=True):
    """One key of [data] that names sources of rows."""

    name: str  # the key
    title: str  # for editors
    description: str  # for editors and the reference of keys
    examples: tuple[str | list[str], ...]  # of what a recipe writes there


SECTIONS = {
    row.name: row
    for row in (
        DataSection(
            name="train",
            title="Training data",
            description="Training rows: a path or glob of files (JSON lines, a JSON list, CSV, Parquet, or .txt "
            "and .md, of which each file is one row as raw text), a table such "
            'as `{ hub = "owner/name" }` for a data set of the Hugging Face Hub, or a list of these.',
            examples=("data/train.jsonl", ["a.jsonl", "b.jsonl"]),
        ),
        DataSection(
            name="domain_text",
            title="Text of the domain",
            description="Raw text of a domain that the model does not know: a stage of continued pretraining learns it "
            "before the stages of the task, which start from its result. Same forms as `train`.",
            examples=("data/manuals/*.txt",),
        ),
        DataSection(
            name="preferences",
            title="Preferences",
            description="Preference pairs, or single answers with a label, for the tasks `align` and `reward`. Same "
            "forms as "
            "`train`.",
            examples=("data/pairs.jsonl",),
        ),
        DataSection(
            name="prompts",
            title="Prompts",
            description="Prompts for methods that generate answers during training, of the tasks `align` and "
            "`on-policy-distill`. Their other columns are passed to the reward functions that name them. PPO in three "
            "stages answers the prompts of the pairs where a recipe has no others. Same forms as `train`.",
            examples=("data/prompts.jsonl",),
        ),
    )
}

COMMON_SECTION = "train"  # every method reads it where a recipe lacks the method's own section
