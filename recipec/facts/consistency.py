"""What the recipe says against what its data and its model turn out to be. Every finding names its places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recipec.catalog.architecture import Architecture
from recipec.dataset.formats import MOST_NAMES
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.data import DataFacts
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_training import ADAPTED

Data = Mapping[str, DataFacts]

_LORA_TABLES = (("train",), *(("train", stage) for stage in ADAPTED))
_FRACTIONS = {"eval_fraction": "has_eval_file", "test_fraction": "has_test_file"}


def against_data(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """Yield what does not go with the rows (E0205, E0401)."""
    for check in _DATA_CHECKS:
        yield from check(loaded, data)


def against_model(loaded: LoadedRecipe, architecture: Architecture) -> Iterator[Diagnostic]:
    """Yield every entry of lora.targets that is no linear module of the model (E0401).

    lm_head is one; that it cannot be trained is the matter of BAD-009.
    """
    modules = tuple(dict.fromkeys(_linear_modules(architecture)))
    for table in _LORA_TABLES:
        path = (*table, "lora", "targets")
        targets = loaded.value(*path)
        for index, name in enumerate(targets if isinstance(targets, list) else ()):
            if name not in (*modules, "lm_head"):
                labels = (
                    Label(loaded.place(*path, index), "no linear module of this model"),
                    Label(loaded.place("model", "name"), f"has {', '.join(modules)}"),
                )
                title = f"the model has no module `{name}` for an adapter"
                yield Diagnostic("E0401", title, labels, ('name some of these, or use "all-linear"',))


def _linear_modules(architecture: Architecture) -> Iterator[str]:
    for dense in (False, True) if architecture.moe and architecture.moe.dense_layers else (False,):
        yield from (name for name, _, _ in architecture.linear_shapes(dense))


def _stages_of_method(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """The preference stage runs if and only if there are pairs to learn from."""
    method = loaded.recipe.alignment.method
    if "train" not in data or "preferences" in data:
        return
    held = data["train"].shape.format
    if method == "dpo" and held != "preference":
        help = "give the pairs as data.preferences, or remove the method"
        yield _clash(loaded, "alignment", "method", "needs preference pairs", "train", held, help)
    if method == "none" and held == "preference":
        help = 'use method = "dpo", or other training data'
        yield _clash(loaded, "alignment", "method", "no preference stage", "train", held, help)


def _text_for_pretraining(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    held = data["train"].shape.format if "train" in data else "text"
    if loaded.recipe.goal.task in ("continue-pretrain", "pretrain") and held != "text":
        help = 'use task = "instruct", or give raw text (`text` or `content` in every row, or .txt files)'
        yield _clash(loaded, "goal", "task", "learns raw text", "train", held, help)


def _text_to_split(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    for section, facts in data.items():
        if loaded.recipe.data.overflow == "split" and facts.shape.format != "text":
            help = 'use overflow = "drop" or "truncate"'
            why = "only raw text can be split into several examples"
            yield _clash(loaded, "data", "overflow", why, section, facts.shape.format, help)
            return


def _clash(loaded: LoadedRecipe, table: str, key: str, why: str, section: str, format: str, help: str) -> Diagnostic:
    value = getattr(getattr(loaded.recipe, table), key)
    labels = (Label(loaded.place(table, key), why), Label(loaded.place("data", section), f"holds {format} rows"))
    title = f"`{table}.{key} = {value}` and the {format} rows of `data.{section}` contradict each other"
    return Diagnostic("E0401", title, labels, (help,))


def _column_to_split_by(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """Every row that a part is drawn from has the column that says how."""
    for key, column in (loaded.value("data", "split") or {}).items():
        for section, facts in data.items():
            if facts.columns and column not in facts.columns:
                listed = ", ".join(f"`{name}`" for name in facts.columns[:MOST_NAMES])
                labels = (
                    Label(loaded.place("data", "split", key), "no such column in every row"),
                    Label(loaded.place("data", section), f"every row has {listed}"),
                )
                title = f"`data.split.{key}` names the column `{column}`, which data.{section} does not have"
                yield Diagnostic("E0401", title, labels, ("name a column of the rows, or add it to them",))


def _something_held_out(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A share of known rows is at least one row."""
    for key, replaced_by in _FRACTIONS.items():
        share = getattr(loaded.recipe.data, key)
        for section, facts in data.items():
            rows = facts.decisions["examples"]
            held_out = not facts.decisions[replaced_by].value
            if share and held_out and rows.origin != "default" and share * rows.value < 1:
                yield _nothing_held_out(loaded, key, share, section, rows.value)
                break


def _nothing_held_out(loaded: LoadedRecipe, key: str, share: float, section: str, rows: int) -> Diagnostic:
    counted = ("data", "examples") if loaded.is_set("data", "examples") else ("data", section)
    labels = (Label(loaded.place("data", key), "less than one row"), Label(loaded.place(*counted), f"{rows:,} rows"))
    help = f"use {key} = {1 / rows:.2g} or more, or name a file with `{key.removesuffix('_fraction')}`"
    return Diagnostic("E0205", f"`data.{key}` of {share:g} holds out nothing of {rows:,} rows", labels, (help,))


_DATA_CHECKS: tuple[Callable[[LoadedRecipe, Data], Iterator[Diagnostic]], ...] = (
    _stages_of_method,
    _text_for_pretraining,
    _text_to_split,
    _column_to_split_by,
    _something_held_out,
)
