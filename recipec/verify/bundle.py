"""A bundle on disk as verification sees it: its plan, its stages, and what its own code says without being run."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recipec.methods import METHODS

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


def function(path: Path, name: str) -> ast.FunctionDef | None:
    """The top-level function `name` of a Python file; None when it is not there."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def assigned(path: Path, name: str) -> ast.expr | None:
    """The value of the top-level assignment to `name`; None when there is none."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.value
    return None


def call_arguments(node: ast.AST | None) -> dict[str, Any]:
    """The keyword arguments of the outermost call in `node` that are literals."""
    call = next((part for part in ast.walk(node) if isinstance(part, ast.Call)), None) if node else None
    return literal_keywords(call) if call else {}


def literal_keywords(call: ast.Call) -> dict[str, Any]:
    """The keyword arguments of one call that are literals; of a choice by the run's length, the planned one."""
    found = {}
    for keyword in call.keywords:
        planned = keyword.value.body if isinstance(keyword.value, ast.IfExp) else keyword.value
        try:
            found[keyword.arg or "**"] = ast.literal_eval(planned)
        except ValueError:
            continue  # an expression such as args.max_steps: only the run knows it
    return found


def every_keyword(node: ast.AST | None) -> dict[str, Any]:
    """The keyword arguments of all calls in `node` that are literals."""
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call)) if node else ()
    return {name: value for call in calls for name, value in literal_keywords(call).items()}


def columns_read(node: ast.AST | None) -> list[str]:
    """The columns that a function reads as row["NAME"] or row.get("NAME"), in the order of its text."""
    found: list[tuple[int, int, str]] = []
    for part in ast.walk(node) if node else ():
        key = _row_key(part)
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.append((key.lineno, key.col_offset, key.value))
    return list(dict.fromkeys(name for _, _, name in sorted(found)))


def _row_key(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "row":
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        owner = node.func.value
        return node.args[0] if isinstance(owner, ast.Name) and owner.id == "row" and node.args else None
    return None
