"""[[adapters]], one adapter for each task, all on the same base model; and [fusion], how they are mixed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from recipec.axes import ADAPTATIONS
from recipec.axes.adaptations import BOTTLENECKS, FUSIONS, MATRICES
from recipec.recipe.fields import TASK_NAME, Count, OpenFraction, Rate, Section, key, required
from recipec.recipe.schema_data import Sources

LEAST_ADAPTERS, MOST_ADAPTERS = 2, 64  # one task needs no list; recipec's choice of the upper limit


class TaskAdapter(Section):
    """One task: its rows, and what its training has otherwise than the training of the other adapters."""

    name: Annotated[str, Field(pattern=TASK_NAME)] = required(
        "Name", "Name of the task and of its adapter, for folders, scripts and routing.", "billing"
    )
    train: Sources = required(
        "Training data",
        "Training data of this task: files, or data sets of the Hugging Face Hub.",
        "data/billing.jsonl",
    )
    eval: Sources | None = key(
        "Evaluation data",
        "Evaluation data of this task. Use either this or `eval_fraction`.",
        "data/billing-eval.jsonl",
        absent="split off the training data of the task, see `data.eval_fraction`",
    )
    eval_fraction: OpenFraction | None = key(
        "Evaluation share",
        "Share of the task's training data used as its evaluation split. Use either this or `eval`.",
        0.1,
        absent="`data.eval_fraction`",
    )
    test: Sources | None = key(
        "Test data",
        "Test data of this task, read only by evaluate.py and combine.py. Use either this or `test_fraction`.",
        "data/billing-test.jsonl",
        absent="split off the training data of the task, see `data.test_fraction`",
    )
    test_fraction: OpenFraction | None = key(
        "Test share",
        "Share of the task's training data used as its test split. Use either this or `test`.",
        0.1,
        absent="`data.test_fraction`",
    )
    examples: Count | None = key(
        "Examples",
        "Number of rows of this task, before `weight` of sources. Set it for data that recipec cannot read at compile "
        "time.",
        4_000,
        absent="`data.examples`, or counted in the files",
    )
    tokens_per_example: Annotated[int, Field(ge=1, le=4_194_304)] | None = key(
        "Tokens per example",
        "Mean length of a row of this task in tokens. Set it for data that recipec cannot read at compile time.",
        300,
        absent="`data.tokens_per_example`, or estimated from the sampled rows",
    )
    learning_rate: Rate | None = key(
        "Learning rate",
        "Peak learning rate of this adapter, reached after warmup.",
        1e-4,
        absent="`train.learning_rate`",
    )
    epochs: Annotated[float, Field(gt=0, le=10_000)] | None = key(
        "Epochs", "Passes of this adapter over the training data of its task.", 3, absent="`train.epochs`"
    )
    rank: Annotated[int, Field(ge=1, le=4096)] | None = key(
        "Rank", "LoRA rank of this adapter. Adapters of different ranks can be combined.", 8, absent="`train.lora.rank`"
    )


class Fusion(Section):
    """AdapterFusion: the adapters of all tasks, frozen, and a learned mix of them. An empty table decides all of it."""

    train: Sources | None = key(
        "Training data",
        "Training data of the mix: files, or data sets of the Hugging Face Hub.",
        "data/both.jsonl",
        absent="the rows of all adapters",
    )
    eval: Sources | None = key(
        "Evaluation data",
        "Evaluation data of the mix. Use either this or `eval_fraction`.",
        "data/both-eval.jsonl",
        absent="the `eval` of all adapters, or split off the training data, see `data.eval_fraction`",
    )
    eval_fraction: OpenFraction | None = key(
        "Evaluation share",
        "Share of the training data of the mix used as its evaluation split. Use either this or `eval`.",
        0.1,
        absent="`data.eval_fraction`",
    )
    test: Sources | None = key(
        "Test data",
        "Test data of the mix, read only by evaluate.py. Use either this or `test_fraction`.",
        "data/both-test.jsonl",
        absent="the `test` of all adapters, or split off the training data, see `data.test_fraction`",
    )
    test_fraction: OpenFraction | None = key(
        "Test share",
        "Share of the training data of the mix used as its test split. Use either this or `test`.",
        0.1,
        absent="`data.test_fraction`",
    )
    examples: Count | None = key(
        "Examples",
        "Number of rows of the mix, before `weight` of sources. Set it for data that recipec cannot read at compile "
        "time.",
        4_000,
        absent="the sum of the adapters' `examples`, `data.examples`, or counted in the files",
    )
    tokens_per_example: Annotated[int, Field(ge=1, le=4_194_304)] | None = key(
        "Tokens per example",
        "Mean length of a row of the mix in tokens. Set it for data that recipec cannot read at compile time.",
        300,
        absent="`data.tokens_per_example`, or estimated from the sampled rows",
    )
    learning_rate: Rate | None = key(
        "Learning rate",
        "Peak learning rate of the mix, reached after warmup. `train.learning_rate` is that of the adapters.",
        5e-5,
        absent="decided (a quarter of LoRA's: 5e-5)",
    )
    epochs: Annotated[float, Field(gt=0, le=10_000)] | None = key(
        "Epochs",
        "Passes of the mix over its training data. `train.epochs` and `train.max_steps` are those of the adapters.",
        3,
        absent="decided from the number of rows",
    )
    identity_penalty: Annotated[float, Field(ge=0, le=10)] | None = key(
        "Identity penalty",
        "Weight of the penalty on the squared distance between each value matrix and the identity, which keeps the mix "
        "from learning the task itself. Raise it if the mix overfits; 0 leaves the penalty out.",
        0.01,
    )


# What adapters can be: matrices, whose updates combine.py can add up, where the recipe does not say; networks behind
# modules, which it cannot, and which alone can be mixed.
ADDED_UP = next(row for row in ADAPTATIONS.values() if row.trains == MATRICES)
MIXED = next(row for row in ADAPTATIONS.values() if row.trains == BOTTLENECKS)
MIX = next(row for row in ADAPTATIONS.values() if row.trains == FUSIONS)
# Where a recipe of one task has what an adapter, or the mix of them, says.
OF_ONE_TASK: dict[str, tuple[str, ...]] = {
    **{name: ("data", name) for name in ("train", "eval", "eval_fraction", "test", "test_fraction")},
    **{name: ("data", name) for name in ("examples", "tokens_per_example")},
    **{name: ("train", name) for name in ("learning_rate", "epochs")},
    "rank": ("train", ADDED_UP.table, "rank"),
}
ADAPTER_SOURCES = ("train", "eval", "test")  # its keys that name files
