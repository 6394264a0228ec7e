"""The tables of [train] and of its stages."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recipec.axes import LORA_VARIANTS
from recipec.recipe.fields import Line, Section, key, one_of

Variant = one_of({row.name: row.means for row in LORA_VARIANTS.values()})
Targets = Literal["all-linear", "attention"] | Annotated[list[Line], Field(min_length=1, max_length=256)]


class Lora(Section):
    """LoRA adapters, also for QLoRA."""

    rank: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "Rank", "LoRA rank. A higher rank can learn more and needs more memory.", 16
    )
    alpha: Annotated[float, Field(gt=0, le=65_536)] | None = key(
        "Alpha", "LoRA alpha: the adapter output is multiplied by alpha / rank, with rslora by alpha / sqrt(rank).", 32
    )
    targets: Targets | None = key(
        "Targets",
        "Modules that get an adapter: `all-linear` (in a mixture of experts, attention and all experts), `attention`, "
        "or "
        "a list of module names, such as `q_proj` or `experts.gate_up_proj`.",
        "all-linear",
        ["q_proj", "v_proj"],
    )
    expert_rank: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "Expert rank",
        "LoRA rank for each expert of a mixture of experts, if its experts get adapters.",
        2,
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = key(
        "Dropout", "Dropout probability on the input of the adapters.", 0.05
    )
    variant: Variant | None = key(
        "Variant",
        "Variant of LoRA. recipec uses one only if the recipe sets it.",
        *LORA_VARIANTS,
    )


VirtualTokens = Annotated[int, Field(ge=1, le=1024)]
EncoderWidth = Annotated[int, Field(ge=1, le=16_384)]


class Prompt(Section):
    """The soft prompt of prompt tuning and P-tuning."""

    virtual_tokens: VirtualTokens | None = key(
        "Virtual tokens", "Length of the soft prompt: number of trained embeddings before each row.", 20
    )
    encoder_hidden_size: EncoderWidth | None = key(
        "Encoder hidden size",
        "Width of the network of P-tuning, which makes the embeddings. With this key, recipec uses P-tuning unless "
        "`train.adaptation` is set.",
        128,
        absent="128 with P-tuning; prompt tuning has no such network",
    )


class Prefix(Section):
    """The prefix of prefix tuning."""

    virtual_tokens: VirtualTokens | None = key(
        "Virtual tokens", "Length of the prefix: number of trained keys and values before each row, in every layer.", 20
    )
    encoder_hidden_size: EncoderWidth | None = key(
        "Encoder hidden size",
        "Width of a network that makes the keys and values during training (PEFT's `prefix_projection`).",
        512,
        absent="no network: the keys and values are trained themselves",
    )


class Curriculum(Section):
    """How the difficulty of a row is measured; exactly one of `by` and `column`."""

    by: Literal["length"] | None = key(
        "By",
        "Measure of difficulty: with `length`, longer rows count as harder.",
        "length",
        absent="none; `column` is then required",
    )
    column: Line | None = key(
        "Column",
        "Column of the training rows with the difficulty, a number that is higher for harder rows.",
        "difficulty",
        absent="none; `by` is then required",
    )
    parts: Annotated[int, Field(ge=2, le=1000)] | None = key(
        "Parts", "Number of equal parts of the ordered rows; within a part the order is random.", 10
    )


class Elastic(Section):
    """Elastic weight consolidation: how strongly weights are held, and how many rows tell which ones matter."""

    strength: Annotated[float, Field(gt=0, le=1e12)] | None = key(
        "Strength",
        "Lambda of the penalty lambda / 2 * sum of F * (weight - start)^2, where F is the Fisher information per "
        "general token. With 1, the general rows count as much as the training rows do.",
        10.0,
        absent="none; required in this table, because the right value depends on the data",
    )
    rows: Annotated[int, Field(ge=1, le=1_000_000)] | None = key(
        "Fisher rows",
        "Number of rows of `data.general`, drawn at random, from which the Fisher information is estimated before "
        "step 1.",
        1024,
    )
