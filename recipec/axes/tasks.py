"""What the rows of all methods say together: the tasks, the stages of a task, and the formats that they take."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from recipec.axes.adaptations import ADAPTATIONS
from recipec.axes.lora_variants import LoraVariant
from recipec.axes.method import Method
from recipec.axes.methods import METHODS
from recipec.axes.row_formats import ROW_FORMATS

AUTO = "auto"  # of an enumeration: the value is decided; of model.name: the model is chosen from the catalog
NO_ALIGNMENT = "none"  # of alignment.method: no stage aligns
# The values of alignment.kl_control, and what each means.
KL_CONTROLS = {
    "low": "a loss that holds the model near its start is enough: DPO where there are pairs",
    "high": "the KL of every answer is measured and taken off its reward, with the fixed weight `alignment.beta` or, "
    "where you set `alignment.target_kl`, with a weight that training adapts to that target: PPO, with a reward model "
    "that is trained first",
}
KL_METHODS = {"high": "ppo"}  # level -> the alignment method that it calls for; other levels leave the rows to decide

# What a task means that several methods can fulfil; every other task means what its one method does.
SHARED_TASKS = {
    "align": "preference training (DPO and others) or reinforcement learning, after supervised fine-tuning if "
    "data.train is set",
}


def tasks() -> dict[str, str]:
    """The values of goal.task and what each means."""
    return {row.task: SHARED_TASKS.get(row.task, row.means) for row in METHODS.values()}


def methods_of(task: str, named: str | None = None) -> tuple[Method, ...]:
    """The methods that can fulfil a task; of those that alignment.method can name, only the one that it names."""
    of_task = (row for row in METHODS.values() if row.task == task)
    return tuple(row for row in of_task if not row.alignment or named in (None, AUTO, row.alignment))


def stages_of(task: str, named: str | None = None) -> tuple[Method, ...]:
    """The methods that can run for a task, in order: those that fulfil it, and those that may go before them."""
    last = methods_of(task, named)
    first = earlier(last or methods_of(task))
    judges = {row.judge for row in last}
    return tuple(row for row in METHODS.values() if row in last or row in first or row.name in judges)


def earlier(methods: Iterable[Method]) -> tuple[Method, ...]:
    """The methods that may go before some of these, and before those in turn, in the order in which they run."""
    names = {name for row in methods for name in row.after}
    first = earlier(METHODS[name] for name in names) if names else ()
    return tuple(row for row in METHODS.values() if row.name in names or row in first)


def sections_of(methods: Collection[Method]) -> tuple[str, ...]:
    """The sections of [data] for the rows of the methods, of those that may go before them and of their judges."""
    judges = (METHODS[row.judge] for row in methods if row.judge)
    return tuple(dict.fromkeys(row.section for row in (*methods, *earlier(methods), *judges)))


def readers(section: str, sections: Collection[str], task: str, named: str | None = None) -> tuple[Method, ...]:
    """The stages of a task that read a section of [data], given those that the recipe has.

    A stage that goes before others reads its own section alone: where the recipe lacks that, it does not run.
    """
    first = earlier(methods_of(task, named) or methods_of(task))
    found = (row for row in stages_of(task, named) if row.rows_in(sections) == section)
    return tuple(row for row in found if row.section == section or row not in first)


def formats_of(methods: Iterable[Method]) -> tuple[str, ...]:
    """The formats that some of the methods take, in the order in which a row is tried against them."""
    taken = {name for row in methods for name in row.formats}
    return tuple(name for name in ROW_FORMATS if name in taken)


def methods_with(variant: LoraVariant) -> tuple[str, ...]:
    """The methods that can run with a variant of LoRA: those with adapters, whose reference it leaves as it is."""
    adapted = (row for row in METHODS.values() if any(ADAPTATIONS[name].table for name in row.adaptations))
    return tuple(row.name for row in adapted if variant.serves(row.has_reference))
