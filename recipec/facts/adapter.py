"""The adapter that the first stage goes on from: what its adapter_config.json says, held against the recipe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.axes import LORA_VARIANTS, METHODS, LoraVariant, meant_by, stages_of
from recipec.axes.adaptations import LORA
from recipec.axes.bases import AS_IS
from recipec.catalog.architecture import Architecture
from recipec.catalog.config_values import UnsupportedConfig
from recipec.catalog.local import read_config
from recipec.catalog.models import Model, model
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.model import made_by_a_run
from recipec.facts.working_folder import path_from_recipe
from recipec.recipe import LoadedRecipe
from recipec.recipe.extends import is_path
from recipec.rules.core import Decision, Wish

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_KEY = ("model", "init_from")
# What PEFT writes where a LoRA adapter has more than matrices of one rank on linear modules.
_MORE = ("modules_to_save", "trainable_token_indices", "target_parameters", "rank_pattern", "alpha_pattern")
_MORE += ("layers_to_transform", "layer_replication", "exclude_modules", "megatron_config", "lora_bias")
_FLAGS = ("use_rslora", "use_dora")


class StartingAdapter(Struct, frozen=True):
    """A LoRA adapter that training goes on with; its shape cannot be changed."""

    path: str  # as the recipe writes it
    rank: int
    alpha: float
    dropout: float
    targets: tuple[str, ...]
    variant: str  # of LORA_VARIANTS
    digest: str  # of its configuration

    @property
    def decided(self) -> Mapping[str, Any]:
        """Keys of the recipe that it decides, and their values."""
        return {
            "train.adaptation": LORA.family,
            "train.lora.rank": self.rank,
            "train.lora.alpha": self.alpha,
            "train.lora.dropout": self.dropout,
            "train.lora.targets": list(self.targets),
            "train.lora.variant": self.variant,
        }

    def wishes(self, recipes: Mapping[str, Wish]) -> dict[str, Wish]:
        """What it decides of a stage, beside what the recipe writes itself.

        Its file does not say how the base below it was stored: as it is, where the recipe does not say either.
        """
        decided = self.decided | {"train.quantization": AS_IS}
        return {key: Wish(value, f"{self.path}/{CONFIG}") for key, value in decided.items()} | dict(recipes)

    def fact(self, loaded: LoadedRecipe) -> Decision:
        """That a stage goes on from it."""
        because = f"its {CONFIG} has the digest {self.digest}"
        where = loaded.where(*_KEY)
        return Decision("init_from", self.path, because, origin="recipe", key="model.init_from", where=where)


def look_up_adapter(loaded: LoadedRecipe, base: Model | None, report: Report) -> StartingAdapter | None:
    """The adapter that the recipe names; None with a diagnostic where it cannot be used (E0311, E0401)."""
    path = loaded.recipe.model.init_from
    if path is None:
        return None
    try:
        if not is_path(path):
            raise UnsupportedConfig("it does not begin with ./, ../ or /, and adapters of the Hub are not loaded")
        config = read_config(loaded.folder / path / CONFIG)
        if all(row.random_weights for row in stages_of(loaded.recipe.goal.task)):
            raise UnsupportedConfig("this task trains every weight, from random ones")
        adapter = _adapter(path, config, base)
        _check_weights(loaded.folder / path)
    except UnsupportedConfig as error:
        label = Label(loaded.place(*_KEY, part="value"), str(error))
        report.add(Diagnostic("E0311", f"training cannot go on from `{path}`", (label,), _instead(loaded, path)))
        return None
    for finding in (*_of_another_base(loaded, config, base), *_contradictions(loaded, adapter)):
        report.add(finding)
    return adapter


def _instead(loaded: LoadedRecipe, path: str) -> tuple[str, ...]:
    """What to name in place of a folder that holds no usable adapter."""
    if is_path(path) and os.path.isfile(loaded.folder / path / "config.json"):
        return (f'for a whole model, set `model.name = "{path}"` and remove `init_from`',)
    if is_path(path) and (seen := path_from_recipe(path, loaded.folder)):
        return seen
    usual = f"name the folder of a LoRA adapter that PEFT has saved: {CONFIG} and {WEIGHTS}"
    return (usual, *(made_by_a_run(loaded, path) if is_path(path) else ()))


def _adapter(path: str, config: Mapping[str, Any], base: Model | None) -> StartingAdapter:
    """What the configuration says; raises UnsupportedConfig for what is no plain LoRA on linear modules."""
    if (kind := config.get("peft_type")) != "LORA":
        raise UnsupportedConfig(f"its peft_type is {kind}, and training goes on from LORA alone")
    if more := [name for name in _MORE if config.get(name)] + ["bias"] * (config.get("bias", "none") != "none"):
        raise UnsupportedConfig(f"it has {', '.join(more)}, which the plan would not count")
    start = config.get("init_lora_weights", True)
    if start not in (True, False, "gaussian"):
        raise UnsupportedConfig(f"init_lora_weights = {start!r} changes the base again when it is loaded")
    targets = config.get("target_modules")
    if not isinstance(targets, list) or not all(isinstance(name, str) for name in targets):
        raise UnsupportedConfig("its target_modules is no list of names")
    if base is not None and (unknown := sorted(set(targets) - _linear(base.architecture))):
        raise UnsupportedConfig(f"its target_modules has {', '.join(unknown)}, and {base.name} has no such module")
    try:
        rank, alpha, dropout = int(config["r"]), float(config["lora_alpha"]), float(config.get("lora_dropout", 0))
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedConfig(f"it does not say its rank and alpha: {error!r}") from error
    digest = sha256(repr(sorted(config.items())).encode()).hexdigest()[:16]
    return StartingAdapter(path, rank, _whole(alpha), dropout, tuple(sorted(targets)), _variant(config).name, digest)


def _variant(config: Mapping[str, Any]) -> LoraVariant:
    """The variant with the flags of the configuration; raises UnsupportedConfig where none has them."""
    flags = {name for name in _FLAGS if config.get(name)}
    for row in LORA_VARIANTS.values():
        if {name for name, value in row.arguments} == flags:
            return row
    raise UnsupportedConfig(f"it has {' and '.join(sorted(flags))}, which no variant has together")


def _linear(architecture: Architecture) -> set[str]:
    return set(architecture.linear_modules)


def _check_weights(folder: Path) -> None:
    if not (folder / WEIGHTS).is_file():
        raise UnsupportedConfig(f"it has no {WEIGHTS}")


def _of_another_base(loaded: LoadedRecipe, config: Mapping[str, Any], base: Model | None) -> Iterator[Diagnostic]:
    """An adapter of a model with equal shapes loads without an error, and is noise on it (E0311)."""
    made_on = str(config.get("base_model_name_or_path") or "")
    if base is None or _same(loaded.folder, made_on, base.name):
        return
    labels = (
        Label(loaded.place(*_KEY, part="value"), f"made on {made_on or 'a model that its file does not name'}"),
        Label(loaded.place("model", "name", part="value"), "another model"),
    )
    help = _ways_to_its_base(loaded.folder, made_on, base.name)
    yield Diagnostic("E0311", f"training cannot go on from `{loaded.recipe.model.init_from}`", labels, help)


def _ways_to_its_base(folder: Path, made_on: str, named: str) -> tuple[str, ...]:
    """How recipe and adapter come to name one model; PEFT keeps the absolute path that a folder had in training."""
    if not made_on:
        return (f"write base_model_name_or_path into its {CONFIG}",)
    if is_path(made_on) and is_path(named) and not (folder / made_on).exists():
        return (f"if {named} is that model, moved here, write `{named}` as base_model_name_or_path into its {CONFIG}",)
    return (f'set `model.name = "{made_on}"`',)


def _same(folder: Path, one: str, other: str) -> bool:
    if is_path(one) or is_path(other):
        return (folder / one).resolve() == (folder / other).resolve()
    first, second = model(one), model(other)
    return one == other or (first is not None and first == second)


def _contradictions(loaded: LoadedRecipe, adapter: StartingAdapter) -> Iterator[Diagnostic]:
    """What the recipe writes of the adapter's shape that the adapter does not have (E0401)."""
    for stage in (None, *METHODS):
        for key, value in adapter.decided.items():
            path = ("train", *([stage] if stage else []), *key.split(".")[1:])
            if not loaded.is_set(*path) or _agrees(key, loaded.value(*path), value):
                continue
            labels = (
                Label(loaded.place(*path), "set in the recipe"),
                Label(loaded.place(*_KEY, part="value"), f"this adapter has {_shown(value)}"),
            )
            yield Diagnostic("E0401", f"`{'.'.join(path)}` is not that of the adapter", labels, ("remove it",))


def _agrees(key: str, written: Any, value: Any) -> bool:
    if key == "train.adaptation" and value in [row.family for row in meant_by(written)]:  # on whichever base
        return True
    if isinstance(value, list):
        return isinstance(written, list) and sorted(written) == value
    return written in (value, "auto") or (key.endswith("variant") and _same_file(written, value))


def _same_file(one: str, other: str) -> bool:
    """Whether adapters of two variants are alike: one that differs in training alone goes on from plain LoRA."""
    return LORA_VARIANTS[one].arguments == LORA_VARIANTS[other].arguments


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number
