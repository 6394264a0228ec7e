"""What a run left behind, compared with the plan. The libraries fall back silently, so exit code 0 proves nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recipec.axes import STRATEGIES
from recipec.verify.bundle import Stage
from recipec.verify.process import Outcome
from recipec.verify.report import VerifyReport
from recipec.verify.sandbox import Sandbox
from recipec.verify.substitutions import MAX_SEQUENCES_PER_STEP

GUESSING = 0.1  # of ln(vocabulary): how far random weights may be from it


def check_outcome(sandbox: Sandbox, ranks: int, outcome: Outcome, report: VerifyReport) -> None:
    """Check facts, losses and files of every stage, and the evaluation."""
    for stage in sandbox.bundle.stages:
        folder = sandbox.outputs / stage.name
        facts = read_json(folder / "facts.json")
        report.facts[stage.name] = facts
        passed = ", ".join(f"{name} {value}" for name, value in facts.items())
        report.add(f"{stage.name}: the run is the planned one", fact_problems(facts, stage, ranks), passed)
        history = log_history(folder)
        report.add(f"{stage.name}: losses are finite", loss_problems(history), loss_story(history))
        if stage.random_weights:
            vocabulary = read_json(folder / "config.json").get("vocab_size", 0)
            name = f"{stage.name}: it begins with random weights"
            report.add(name, guessing_problems(history, vocabulary), f"the first loss is that of {vocabulary} guesses")
        report.add(f"{stage.name}: weights are saved", saved_problems(folder, stage), str(sorted(_weights(folder))))
    evaluations = {when: read_json(sandbox.outputs / "evaluation" / f"{when}.json") for when in ("before", "after")}
    passed = "; ".join(f"{when} {found.get('metrics')}" for when, found in evaluations.items())
    report.add("the evaluation before and after is there", evaluation_problems(evaluations), passed)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty when there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def fact_problems(facts: Mapping[str, Any], stage: Stage, ranks: int) -> list[str]:
    """Where a run differs from the plan with `ranks` processes in place of the planned ones."""
    if not facts:
        return ["facts.json is missing or empty"]
    expected = expected_facts(stage, ranks)
    problems = [
        f"{name} is {facts.get(name)}, not {value}" for name, value in expected.items() if facts.get(name) != value
    ]
    sharded, _, total = str(facts.get("sharded_parameters", "0 of 0")).partition(" of ")
    if STRATEGIES[stage.choice["strategy"]].shards_weights and not int(sharded):
        problems.append(f"none of {total} parameters is sharded")
    problems += _recomputed_problems(str(facts.get("recomputed_layers", "")), stage.choice)
    counts = ("trainable_tensors", "trained_tokens", "rows")
    problems += [f"{name} is {facts.get(name)}" for name in counts if not facts.get(name)]
    return problems


def _recomputed_problems(fact: str, choice: Mapping[str, Any]) -> list[str]:
    """Where other layers are recomputed than the plan's, in a model of any depth."""
    recomputed, _, layers = fact.partition(" of ")
    every = choice["recompute_every"]
    planned = -(-int(layers or 0) // every) if every else 0
    return [] if recomputed == str(planned) else [f"recomputed_layers is {fact}, not {planned}"]


def expected_facts(stage: Stage, ranks: int) -> dict[str, Any]:
    """The planned facts after substitution."""
    choice = stage.choice
    world = min(ranks, choice["world_size"])
    most = max(1, MAX_SEQUENCES_PER_STEP // choice["micro_batch_size"])
    accumulation = min(choice["gradient_accumulation"], most)
    return {
        "distributed": STRATEGIES[choice["strategy"]].engine,
        "world_size": world,
        "global_batch_size": choice["micro_batch_size"] * accumulation * world,
    }


def log_history(folder: Path) -> list[dict[str, Any]]:
    """The trainer's own log, from the newest checkpoint."""
    states = folder.glob("checkpoint-*/trainer_state.json")
    newest = max(states, key=lambda path: int(path.parent.name.split("-")[1]), default=None)
    return read_json(newest).get("log_history", []) if newest else []


def loss_problems(history: list[dict[str, Any]]) -> list[str]:
    """Why the logged numbers do not show a training."""
    names = ("loss", "eval_loss", "grad_norm")
    values = [(name, entry[name], entry.get("step")) for entry in history for name in names if name in entry]
    if not {"loss", "eval_loss"} <= {name for name, _, _ in values}:
        return ["no checkpoint with a log of losses and evaluations"]
    return [f"{name} is {value} at step {step}" for name, value, step in values if not math.isfinite(value)]


def guessing_problems(history: list[dict[str, Any]], vocabulary: int) -> list[str]:
    """Why the evaluation before the first step is not that of random weights, which guess: a loss of ln(vocabulary)."""
    found = next((entry["eval_loss"] for entry in history if "eval_loss" in entry and not entry["step"]), None)
    if found is None:
        return ["no evaluation before the first step"]
    guess = math.log(max(vocabulary, 1))
    near = abs(found - guess) <= GUESSING * guess
    return [] if near else [f"the first eval_loss is {found:.3f}, a guess would be {guess:.3f}"]


def loss_story(history: list[dict[str, Any]]) -> str:
    """First and last loss."""
    losses = [entry["loss"] for entry in history if "loss" in entry]
    return f"loss {losses[0]:.4f} to {losses[-1]:.4f} in {len(losses)} logs" if losses else ""


def saved_problems(folder: Path, stage: Stage) -> list[str]:
    """Which of the files that the next step needs are missing."""
    needed = ["adapter_config.json"] if stage.choice["adaptation"] == "lora" else ["config.json"]
    problems = [f"{name} is missing" for name in [*needed, "tokenizer_config.json"] if not (folder / name).is_file()]
    if not _weights(folder):
        problems.append(f"no safetensors in {folder.name}")
    if not any(folder.glob("checkpoint-*/plan.txt")):
        problems.append("no complete checkpoint")
    return problems


def _weights(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.safetensors")]


def evaluation_problems(evaluations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Evaluations without finite metrics or without samples."""
    problems = []
    for when, found in evaluations.items():
        values = list(found.get("metrics", {}).values())
        if not values or not all(math.isfinite(value) for value in values):
            problems.append(f"{when}.json has no finite metrics")
        if not found.get("samples"):
            problems.append(f"{when}.json has no sample answers")
    return problems
