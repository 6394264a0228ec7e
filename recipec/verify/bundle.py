"""A bundle on disk as verification sees it: its plan, its stages, and what its own code says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recipec.axes import METHODS
from recipec.verify.source import call_arguments, every_keyword, function

RECORDS = ".recipec"
PRODUCED = (RECORDS, "outputs", "data", "__pycache__")  # not emitted, or not part of what runs


class NotABundle(Exception):
    """The folder has no plan.json that can be read: the message says why."""


@dataclass(frozen=True)
class Stage:
    """One stage: its plan and its script."""

    root: Path
    name: str
    folder: str  # "" or "stages/1-sft/"
    choice: Mapping[str, Any]
    decisions: Mapping[str, Any]  # id -> value

    @property
    def script(self) -> Path:
        """The stage's train.py."""
        return self.root / self.folder / "train.py"

    @cached_property
    def arguments(self) -> Mapping[str, Any]:
        """The keyword arguments of the trainer's configuration, as train.py writes them; only literal values."""
        return call_arguments(function(self.script, "training_config"))

    @cached_property
    def model_options(self) -> Mapping[str, Any]:
        """How train.py loads its model, or makes it: dtype, revision and the like; only literal values."""
        loaded = self.arguments.get("model_init_kwargs")
        return every_keyword(function(self.script, "random_model")) if loaded is None else loaded

    @property
    def random_weights(self) -> bool:
        """Whether the stage begins with random weights instead of the model's."""
        return METHODS[self.name].random_weights


@dataclass(frozen=True)
class Bundle:
    """A folder that `recipec build` wrote."""

    root: Path
    stages: tuple[Stage, ...]

    @property
    def last(self) -> Stage:
        """The stage whose result is the bundle's."""
        return self.stages[-1]

    @property
    def machines(self) -> int:
        """Nodes that the launch script is for."""
        largest = max(stage.choice["world_size"] for stage in self.stages)
        return -(-largest // self.last.decisions["gpus_per_node"])

    @property
    def files(self) -> list[Path]:
        """Every emitted file, sorted; not the records, and nothing that a run produced."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(
            path for path in found if path.relative_to(self.root).parts[0] not in PRODUCED and not _cached(path)
        )

    def ending(self, *suffixes: str) -> list[Path]:
        """The emitted files with one of these endings."""
        return [path for path in self.files if path.suffix in suffixes]

    def name_of(self, path: Path) -> str:
        """A path as the bundle's reader knows it."""
        return path.relative_to(self.root).as_posix()


def read_bundle(out: Path) -> Bundle:
    """The bundle in `out`; raises NotABundle."""
    plan = out / RECORDS / "plan.json"
    try:
        document = json.loads(plan.read_text(encoding="utf-8"))
        stages = [_stage(out, entry, index, len(document["stages"])) for index, entry in enumerate(document["stages"])]
    except OSError as error:
        raise NotABundle(f"{out} is not a bundle: {RECORDS}/plan.json cannot be read") from error
    except (ValueError, KeyError, TypeError) as error:
        raise NotABundle(f"{plan} is not the plan of a bundle: {error!r}") from error
    return Bundle(out, tuple(stages))


def _stage(out: Path, entry: Mapping[str, Any], index: int, count: int) -> Stage:
    folder = f"stages/{index + 1}-{entry['name']}/" if count > 1 else ""
    decisions = {decision["id"]: decision["value"] for decision in entry["decisions"]}
    return Stage(out, entry["name"], folder, entry["choice"], decisions)


def _cached(path: Path) -> bool:
    return "__pycache__" in path.parts or ".ruff_cache" in path.parts
