"""A bundle on disk as verification sees it: its plan, its stages, and what its own code says without being run."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.axes import (
    LORA_VARIANTS,
    METHODS,
    STRATEGIES,
    Adaptation,
    LoraVariant,
    Method,
    Strategy,
    adaptation_of,
)
from recipec.axes.loops import LOOPS, TRAINER, Loop
from recipec.axes.lora_variants import STANDARD
from recipec.bundle.state import MOST_BYTES, Lock, read_lock
from recipec.files import read_regular
from recipec.rules.intervals import saves_in, steps_apart, steps_taught
from recipec.rules.metrics import watched
from recipec.verify.plan_form import form_problem

RECORDS = ".recipec"
MOST_NODES = 1024  # of a recipe: the launch script is read for each of them
MOST_ADDED_BYTES = 2**20  # of a file that no build wrote: data or weights may lie beside the emitted files
PRODUCED = (RECORDS, "outputs", "data", "__pycache__")  # not emitted, or not part of what runs


class NotABundle(Exception):
    """The folder has no plan.json that can be read: the message says why."""


class BundleStage(Struct, frozen=True, dict=True):
    """One stage of a bundle: its plan and its script."""

    root: Path
    name: str  # of its folder: its method's, or its task's
    objective: str  # of its row in METHODS
    folder: str  # "" or "stages/1-sft/"
    choice: Mapping[str, Any]
    decisions: Mapping[str, Any]  # id -> value
    origins: Mapping[str, str]  # id of a decision -> where it comes from: recipe, data, default …
    watched: frozenset[str]  # the metrics that its plan says to watch
    passed_on: Mapping[str, Any]  # arguments of the trainer that the recipe states itself

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
        made = function(self.script, "load_model" if self.loop.own else "random_model")
        return loaded if isinstance(loaded, dict) else every_keyword(made)

    @cached_property
    def quantizing(self) -> Mapping[str, Any]:
        """How the base is loaded in fewer bits, by train.py or by the script that packs it first; only literals."""
        files = (self.script, self.script.with_name("quantize.py"))
        found = (function(file, f"{self.adapts.base}_config") for file in files if file.is_file())
        return call_arguments(next(filter(None, found), None))

    @property
    def loop(self) -> Loop:
        """Who runs its steps."""
        return LOOPS[self.decisions.get("loop", TRAINER.name)]

    @property
    def method(self) -> Method:
        """How it learns, with the values of its own hyperparameters."""
        return METHODS[self.objective].under(self.decisions)

    @property
    def saves(self) -> int:
        """How many checkpoints it writes; 0: its result is the last step."""
        return saves_in(*self._intervals, steps_taught(self.decisions))

    @property
    def steps_apart(self) -> tuple[int, int]:
        """Steps from one evaluation to the next, and from one checkpoint to the next."""
        return steps_apart(*self._intervals, steps_taught(self.decisions))

    @property
    def _intervals(self) -> tuple[float, float, int]:
        return tuple(self.decisions[name] for name in ("eval_every", "save_every", "total_steps"))

    @property
    def acts(self) -> bool:
        """Whether the model calls tools while it learns."""
        return "tools" in self.decisions

    @property
    def variant(self) -> LoraVariant:
        """What is done otherwise than in plain LoRA."""
        return LORA_VARIANTS[self.decisions.get("lora_variant", STANDARD.name)]

    @property
    def adapts(self) -> Adaptation:
        """Which weights it trains."""
        return adaptation_of(self.choice["adaptation"], self.choice["quantization"])

    @property
    def spreads(self) -> Strategy:
        """How its work is spread over ranks."""
        return STRATEGIES[self.choice["strategy"]]


class Bundle(Struct, frozen=True, dict=True):
    """A folder that `recipec build` wrote."""

    root: Path
    stages: tuple[BundleStage, ...]
    lock: Lock

    @property
    def last(self) -> BundleStage:
        """The stage whose result is the bundle's."""
        return self.stages[-1]

    @cached_property
    def built(self) -> frozenset[str]:
        """The paths that its last build wrote: those in its lock, and those whose text it kept for the next merge."""
        kept = self.root / RECORDS / "last"
        texts = (path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file() and not _cached(path))
        return frozenset(self.lock.files) | frozenset(texts)

    @cached_property
    def launcher(self) -> str:
        """The path of the launch script; "" where the recipe wants none."""
        return next((path for path in sorted(self.built) if path.startswith("launch/")), "")

    @property
    def machines(self) -> int:
        """Nodes that the launch script is for."""
        largest = max(stage.choice["world_size"] for stage in self.stages)
        return -(-largest // self.last.decisions["gpus_per_node"])

    @property
    def files(self) -> list[Path]:
        """Every emitted file, and what its owner added up to 1 MiB, sorted; no record, and nothing of a run."""
        return [path for path in self._found() if not self._is_passed_over(path)]

    @property
    def passed_over(self) -> list[Path]:
        """What its owner added and no check reads, because it is large."""
        return [path for path in self._found() if self._is_passed_over(path)]

    def _found(self) -> list[Path]:
        found = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(
            path for path in found if path.relative_to(self.root).parts[0] not in PRODUCED and not _cached(path)
        )

    def _is_passed_over(self, path: Path) -> bool:
        return self.name_of(path) not in self.built and path.stat().st_size > MOST_ADDED_BYTES

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
        document = json.loads(read_regular(plan, MOST_BYTES))
    except OSError as error:
        raise NotABundle(f"{out} is not a bundle: {RECORDS}/plan.json cannot be read") from error
    except (ValueError, RecursionError) as error:
        raise NotABundle(f"{plan} is not the plan of a bundle: {error}") from error
    if wrong := form_problem(document):
        raise NotABundle(f"{plan} is not the plan of a bundle: {wrong}")
    entries = document["stages"]
    stages = [_stage(out, entry, index, len(entries)) for index, entry in enumerate(entries)]
    if not stages:
        raise NotABundle(f"{plan} has no stages")
    lock = read_lock(out)
    if lock is None:
        raise NotABundle(f"{out / RECORDS}/lock.json cannot be read: restore it from version control, or build again")
    bundle = Bundle(out, tuple(stages), lock)
    if bundle.machines > MOST_NODES:
        raise NotABundle(f"{plan} names {bundle.machines:,} nodes: no recipe has more than {MOST_NODES:,}")
    return bundle


def _stage(out: Path, entry: Mapping[str, Any], index: int, count: int) -> BundleStage:
    """A stage of plan.json, whose form has been looked at."""
    folder = f"stages/{index + 1}-{entry['name']}/" if count > 1 else ""
    decisions = {decision["id"]: decision["value"] for decision in entry["decisions"]}
    origins = {decision["id"]: decision["origin"] for decision in entry["decisions"]}
    named = frozenset(name for decision in entry["decisions"] for name in watched(decision["watch"]))
    own = entry.get("passed_on", {})
    return BundleStage(out, entry["name"], entry["objective"], folder, entry["choice"], decisions, origins, named, own)


def _cached(path: Path) -> bool:
    """Whether Python or ruff wrote it: ruff may look at the texts of the last build, too, and keep what it found."""
    return "__pycache__" in path.parts or ".ruff_cache" in path.parts


@lru_cache(maxsize=16)  # the scripts of a bundle, of which one function is read after the other
def _parsed(text: str, filename: str) -> ast.Module:
    return ast.parse(text, filename)


def function(path: Path, name: str) -> ast.FunctionDef | None:
    """The top-level function `name` of a Python file; None when it is not there."""
    tree = _parsed(path.read_text(encoding="utf-8"), str(path))
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def assigned(path: Path, name: str) -> ast.expr | None:
    """The value of the top-level assignment to `name`; None when there is none."""
    tree = _parsed(path.read_text(encoding="utf-8"), str(path))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.value
    return None


def call_arguments(node: ast.AST | None) -> dict[str, Any]:
    """The keyword arguments, those that are literals, of the call that a function returns, or else of the first one."""
    call = _call(node)
    return literal_keywords(call) if call else {}


def keywords(node: ast.AST | None) -> dict[str, ast.expr]:
    """All keyword arguments of this call, as they are written."""
    call = _call(node)
    return {keyword.arg or "**": keyword.value for keyword in call.keywords} if call else {}


def _call(node: ast.AST | None) -> ast.Call | None:
    if node is None:
        return None
    returned = (part.value for part in ast.walk(node) if isinstance(part, ast.Return))
    return next((part for part in (*returned, *ast.walk(node)) if isinstance(part, ast.Call)), None)


def literal_keywords(call: ast.Call) -> dict[str, Any]:
    """The keyword arguments of one call that are literals; of a choice by the run's length, the planned one."""
    found = {}
    for keyword in call.keywords:
        planned = keyword.value.body if isinstance(keyword.value, ast.IfExp) else keyword.value
        try:
            found[keyword.arg or "**"] = ast.literal_eval(planned)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue  # an expression such as args.max_steps: only the run knows it
    return found


def every_keyword(node: ast.AST | None) -> dict[str, Any]:
    """The keyword arguments of all calls in `node` that are literals."""
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call)) if node else ()
    return {name: value for call in calls for name, value in literal_keywords(call).items()}
