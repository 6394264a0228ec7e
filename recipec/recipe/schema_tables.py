"""The tables of a stage's learning: the order of its rows, and the weights that it holds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recipec.recipe.fields import Line, Section, key


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


class DispatchedExperts(Section):
    """Experts of a mixture that DeepSpeed-MoE trains: how many tokens each has room for, and what balances them."""

    capacity_factor: Annotated[float, Field(ge=0.1, le=256)] | None = key(
        "Capacity factor",
        "Room of each expert in training, as a multiple of its even share of the tokens of a micro batch. What goes "
        "beyond it is dropped: the token passes the layer without that expert.",
        1.5,
    )
    eval_capacity_factor: Annotated[float, Field(ge=0.1, le=256)] | None = key(
        "Evaluation capacity factor",
        "Room of each expert in evaluations during training, as a multiple of its even share of the tokens.",
        4.0,
    )
    min_capacity: Annotated[int, Field(ge=0, le=1_000_000)] | None = key(
        "Least capacity", "Tokens that each expert has room for at least, however small the micro batch is.", 8
    )
    balance_loss: Annotated[float, Field(ge=0, le=10)] | None = key(
        "Balance loss",
        "Weight of the loss that rises where few experts of a layer get most of the tokens. It is added for each layer "
        "with experts.",
        0.02,
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
