"""The run level: execute the bundle through its own launch script and look at what really happened."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.axes import KINDS, Method
from recipec.axes.adaptations import SCALES
from recipec.axes.strategies import ZERO3
from recipec.verify.best import check_best
from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.evaluated import evaluation_problems, lost_in_rounding, unchanged_problems
from recipec.verify.experts import check_experts
from recipec.verify.learn_checks import story
from recipec.verify.new_tokens import check_new_tokens
from recipec.verify.process import Outcome, drop_stale_locks
from recipec.verify.report import VerifyReport
from recipec.verify.sandbox import Sandbox, extensions_folder
from recipec.verify.scores import check_scores
from recipec.verify.seen import check_evaluated, check_training, patches_of
from recipec.verify.sizes import RUN_STEPS, batch_of
from recipec.verify.steps import check_steps
from recipec.verify.substitutions import Situation, merged, substitutions

LIMIT_SECONDS = 300.0  # of a stage: its evaluations, training and merging
MOST_CROWDING = 4.0  # a run that hangs is to be told within an hour or so
COMPILING_SECONDS = 600.0  # the first DeepSpeed run compiles operators: up to 150 s each on two cores
ROWS = 160
MOST_MACHINES = 2  # that are played here


class Rehearsal(Struct, frozen=True):
    """One way of starting the bundle: the shim's patches, and how many processes."""

    sandbox: Sandbox
    patches: Mapping[str, Any]
    ranks: int
    steps: int
    as_planned: bool  # started as a user starts it, who says nothing of ranks

    def start(self, name: str, script: str, *arguments: str, **patches: Any) -> Outcome:
        """Run a launch script of the copy with further patches; `_` in their names stands for `-`."""
        extra = {patch.replace("_", "-"): value for patch, value in patches.items()}
        environment = self.sandbox.environment(merged([self.patches, extra])) | self.told
        command = ["bash", script, *arguments]
        if self.machines == 1:
            return self.sandbox.run(name, command, environment, self.limit_seconds)
        return self._on_all(name, command, environment)

    def _on_all(self, name: str, command: list[str], environment: Mapping[str, str]) -> Outcome:
        """Every machine of the bundle is a process here; the outcome is of the one that failed first, if any did."""

        def on(machine: int) -> Outcome:
            place = {"NODE_RANK": str(machine), "MASTER_ADDR": "127.0.0.1"}
            own = f"{name}-{machine}" if machine else name
            return self.sandbox.run(own, command, environment | place, self.limit_seconds)

        with ThreadPoolExecutor() as pool:
            outcomes = list(pool.map(on, range(self.machines)))
        failed = [outcome for outcome in outcomes if not outcome.ok]  # the others end because it did
        return min(failed, key=lambda outcome: outcome.seconds, default=outcomes[0])

    def rate(self, stage: BundleStage) -> float:
        """The learning rate of a stage: the plan's, or the one in its place where learning is to show."""
        instead = self.patches.get("script-arguments", {}).get(f"{stage.folder}train.py", {})
        return float(instead.get("learning_rate", stage.decisions["learning_rate"]))

    @property
    def told(self) -> dict[str, str]:
        """What the launch script is told of the ranks: only what differs from its plan."""
        if self.as_planned:
            return {}
        nodes = {"NNODES": str(self.machines)} if self.machines > 1 else {}
        return {"OTHER_RANKS": "1", "NPROC_PER_NODE": str(self.ranks // self.machines), "SHARDS": "2"} | nodes

    @property
    def machines(self) -> int:
        """MOST_MACHINES where the bundle is for that many or more."""
        return min(MOST_MACHINES, self.sandbox.bundle.machines)

    @property
    def limit_seconds(self) -> float:
        """Far above what a run takes on two cores."""
        stages = self.sandbox.bundle.stages
        deepspeed = any(stage.spreads.engine == ZERO3.engine for stage in stages)
        return crowding() * (len(stages) * LIMIT_SECONDS + (COMPILING_SECONDS if deepspeed else 0.0))


def crowding() -> float:
    """How many times as long a run may take because other work waits for the cores, too: 1 on a free machine."""
    return min(MOST_CROWDING, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def ranks_for(bundle: Bundle, asked: int | None) -> int:
    """Processes of a run here: the plan's, but at most `asked` (2; 4 for two groups of shards)."""
    planned = max(stage.choice["world_size"] for stage in bundle.stages)
    copies = any(stage.spreads.groups for stage in bundle.stages)
    return max(1, min(planned, asked or (4 if copies else 2)))


def prepare_launch(sandbox: Sandbox, ranks: int, learns: bool, report: VerifyReport) -> Rehearsal:
    """Decide the substitutions of a run and list them in the report."""
    shape = sandbox.shape
    replaced = (sandbox.model, sandbox.data, sandbox.hub_data, sandbox.outside)
    situation = Situation(sandbox.bundle, ranks, learns, *replaced, shape)
    listed, patches = substitutions(situation)
    report.substitutions.extend(listed)
    as_planned = situation.as_planned and sandbox.bundle.machines <= MOST_MACHINES
    return Rehearsal(sandbox, patches, ranks, situation.steps, as_planned)


def run_bundle(launch: Rehearsal, report: VerifyReport, **patches: Any) -> bool:
    """Execute the whole bundle and check what it left; whether it ran to its end."""
    drop_stale_locks(extensions_folder())
    started, script = time.monotonic(), launch.sandbox.bundle.launcher
    patches |= observed(launch.sandbox)
    outcome = launch.start("run", script, "--max-steps", str(launch.steps), **patches)
    if not outcome.ok and _died_in_teardown(launch, outcome):
        shutil.rmtree(launch.sandbox.outputs, ignore_errors=True)
        outcome = launch.start("run-again", script, "--max-steps", str(launch.steps), **patches)
        report.skip("a second launch was needed", "the first had saved its result and died while its processes ended")
    report.metrics["run_seconds"] = round(time.monotonic() - started, 1)
    told = ", ".join(f"{name}={value}" for name, value in launch.told.items())
    how = f"started with {told}" if told else "started as a user starts it"
    if report.add(f"{script} runs to its end", "" if outcome.ok else outcome.tail(), how):
        check_outcome(launch, report)
    return outcome.ok


def observed(sandbox: Sandbox) -> dict[str, Any]:
    """The patches that note what a run does, and change nothing of it but what it takes back at its end."""
    answers = {f"{stage.folder}train.py": answers_of(stage.method) for stage in sandbox.bundle.stages}
    sandbox.evaluated.mkdir(exist_ok=True)
    noted = patches_of(sandbox.bundle, answers, sandbox.evaluated)
    return {"learned_tokens": counted_by(sandbox.bundle), "first_step": True, "best_is_loaded": True} | noted


def counted_by(bundle: Bundle) -> dict[str, dict[str, Any]]:
    """By training script, for the shim: the answers of a row that are encoded one by one, and whether all counts."""
    return {f"{stage.folder}train.py": _counted(stage) for stage in bundle.stages}


def _counted(stage: BundleStage) -> dict[str, Any]:
    evaluated = stage.decisions["eval_samples"]
    return {"answers": answers_of(stage.method), "all": not stage.method.writes, "eval_rows": evaluated}


def answers_of(method: Method) -> list[list[str]]:
    """What rows.encode is given beside row and tokenizer: each answer of a row that teaches several."""
    taught = KINDS[method.kinds[0]].taught
    return [[name] for name in taught] if len(taught) > 1 else [[]]


def _died_in_teardown(launch: Rehearsal, outcome: Outcome) -> bool:
    """Whether a training of several processes had finished its work: facts told, peak printed, weights saved."""
    text = outcome.text()
    finished = "facts:" in text and "GiB allocated" in text and _saved(launch.sandbox)
    return launch.ranks > 1 and outcome.code is not None and finished


def _saved(sandbox: Sandbox) -> bool:
    last = sandbox.bundle.last
    return bool(saved_weights(sandbox.outputs / last.name, last))


_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
GUESSING = 0.1  # of ln(vocabulary): how far random weights may be from it


def check_outcome(launch: Rehearsal, report: VerifyReport) -> None:
    """Check facts, losses, files and evaluation of every stage."""
    sandbox = launch.sandbox
    for stage in sandbox.bundle.stages:
        _check_stage(launch, stage, report)
        _check_evaluation(launch, stage, report)


def _check_evaluation(launch: Rehearsal, stage: BundleStage, report: VerifyReport) -> None:
    """Check what evaluate.py found of a stage, of few rows: a run here is a first look."""
    sandbox, bundle, folder = launch.sandbox, launch.sandbox.bundle, launch.sandbox.outputs / "evaluation" / stage.name
    script = (bundle.root / bundle.launcher).read_text(encoding="utf-8")
    merged = f'{stage.folder}evaluate.py" merged' in script
    whens = ("before", "after", *["merged"] * merged)
    evaluations = {when: read_json(folder / "quick" / f"{when}.json") for when in whens}
    passed = "; ".join(f"{when} {found.get('metrics')}" for when, found in evaluations.items())
    few = stage.method.generates and launch.steps <= RUN_STEPS  # whose few answers may stay as they were
    unchanged = [] if few else unchanged_problems(evaluations)
    if unchanged and (reason := lost_in_rounding(launch.steps, launch.rate(stage), stage.adapts.trains == SCALES)):
        report.skip(f"{stage.name}: the evaluation of what was trained", reason)
        unchanged = []
    problems = [*evaluation_problems(evaluations, stage.method.writes), *unchanged]
    report.add(f"{stage.name}: the evaluations are there: {', '.join(whens)}", problems, passed)
    rows = read_json(sandbox.outputs / stage.name / "seen.json").get("rows", {})
    check_evaluated(stage, rows, sandbox.evaluated, evaluations["after"], report)
    if "perplexity" in evaluations["after"].get("metrics", {}):
        check_scores(sandbox, launch.patches, stage, evaluations["after"], report)


def undefined_metrics(history: Sequence[Mapping[str, float]]) -> set[str]:
    """What is a share of the training loss, where that is 0 or below at every evaluation: hinge and robust DPO."""
    losses = accumulate((entry.get("loss") for entry in history), lambda last, now: last if now is None else now)
    found = [loss for loss, entry in zip(losses, history, strict=True) if "eval_loss" in entry and loss is not None]
    return {"train_eval_gap"} if found and max(found) <= 0 else set()


def _check_stage(launch: Rehearsal, stage: BundleStage, report: VerifyReport) -> None:
    """Check what a stage left in its output folder."""
    folder, bundle, ranks = launch.sandbox.outputs / stage.name, launch.sandbox.bundle, launch.ranks
    facts = read_json(folder / "facts.json")
    report.facts[stage.name] = facts
    passed = ", ".join(f"{name} {value}" for name, value in facts.items())
    report.add(f"{stage.name}: the run is the planned one", fact_problems(facts, bundle, stage, ranks), passed)
    if not stage.spreads.keeps_master:
        types = read_json(folder / "first_step.json")
        said = f"{types.get('float32')} tensors that the optimizer changes are float32 when its first step begins"
        report.add(f"{stage.name}: it learns in float32", type_problems(types), said)
    if not (stage.method.of_text or stage.decisions["packing"]):  # blocks do not begin where rows do
        learned = read_json(folder / "learned_tokens.json")
        report.add(f"{stage.name}: evaluate.py scores the tokens that train.py learns", *learned_problems(learned))
    seen = read_json(folder / "seen.json")
    check_training(stage, seen, launch.patches, report)
    history = log_history(folder)
    report.add(f"{stage.name}: losses are finite", loss_problems(history), story(history))
    check_steps(stage, history, launch.rate(stage), report)
    if stage.acts:
        report.add(
            f"{stage.name}: calls of tools are answered", call_problems(history), "tools/call_frequency is above 0"
        )
    unlogged = sorted(stage.watched - {name for entry in history for name in entry} - undefined_metrics(history))
    problems = [f"{name} is not logged" for name in unlogged]
    report.add(f"{stage.name}: what the plan says to watch is logged", problems, ", ".join(sorted(stage.watched)))
    if stage.method.random_weights:
        vocabulary = read_json(folder / "config.json").get("vocab_size", 0)
        name = f"{stage.name}: it begins with random weights"
        report.add(name, guessing_problems(history, vocabulary), f"the first loss is that of {vocabulary} guesses")
    check_best(stage, folder, seen, report)
    check_new_tokens(stage, bundle.root, folder, seen, report)
    check_experts(stage, read_json(folder / "config.json"), history, report)
    saved = [path.name for path in saved_weights(folder, stage)]
    report.add(f"{stage.name}: weights are saved", saved_problems(folder, stage), str(saved))


def type_problems(types: Mapping[str, int]) -> list[str]:
    """Tensors that the optimizer changes in fewer than 32 bits, where the small steps of a training are lost."""
    if not types:
        return ["first_step.json is missing: no optimizer step began"]
    others = ", ".join(f"{count} are {name}" for name, count in types.items() if name != "float32")
    if not others:
        return []
    return [
        f"of {sum(types.values())} tensors that the optimizer changes {others} when its first step begins, so that "
        "small steps round to nothing: let train.py make what requires a gradient float32 once its trainer is made"
    ]


def learned_problems(splits: Mapping[str, Mapping[str, int]]) -> tuple[list[str], str]:
    """Where the trainer has other rows than the file of a split, or they teach other tokens than evaluation scores.

    The second is what was compared.
    """
    if not splits:
        return ["learned_tokens.json is missing"], ""
    problems = [said for split, counts in splits.items() for said in _split_problems(split, counts)]
    return problems, "; ".join(f"{of['trained']} tokens of {of['rows']} {split} rows" for split, of in splits.items())


def _split_problems(split: str, of: Mapping[str, int]) -> list[str]:
    if of["rows"] != of["rows_of_file"]:
        return [f"train.py takes {of['rows']} of the {of['rows_of_file']} rows of {split}.jsonl"]
    if of["trained"] == of["evaluated"] > 0:
        return []
    return [f"train.py has {of['trained']} learned tokens of {split}.jsonl, evaluate.py scores {of['evaluated']}"]


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty when there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def fact_problems(facts: Mapping[str, Any], bundle: Bundle, stage: BundleStage, ranks: int) -> list[str]:
    """Where a run differs from the plan with `ranks` processes in place of the planned ones."""
    if not facts:
        return ["facts.json is missing or empty"]
    expected = expected_facts(bundle, stage, ranks)
    problems = [
        f"{name} is {facts.get(name)}, not {value}" for name, value in expected.items() if facts.get(name) != value
    ]
    sharded, _, total = str(facts.get("sharded_parameters", "0 of 0")).partition(" of ")
    if stage.spreads.shards_weights and not int(sharded):
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


def expected_facts(bundle: Bundle, stage: BundleStage, ranks: int) -> dict[str, Any]:
    """The planned facts after substitution."""
    return {
        "distributed": stage.spreads.engine,
        "world_size": min(ranks, stage.choice["world_size"]),
        "global_batch_size": batch_of(bundle, stage, ranks),
        "trains_in": _trained_type(stage),
    }


def _trained_type(stage: BundleStage) -> str:
    """fp32, whose small steps count; an engine that keeps fp32 masters trains what it casts to the compute type."""
    return _DTYPES[stage.choice["precision"]] if stage.spreads.keeps_master else _DTYPES["fp32"]


def log_history(folder: Path) -> list[dict[str, Any]]:
    """The trainer's own log, from the newest checkpoint; from beside the result where there is none."""
    states = folder.glob("checkpoint-*/trainer_state.json")
    newest = max(states, key=lambda path: int(path.parent.name.split("-")[1]), default=folder / "trainer_state.json")
    return read_json(newest).get("log_history", [])


def loss_problems(history: list[dict[str, Any]]) -> list[str]:
    """Why the logged numbers do not show a training."""
    names = ("loss", "eval_loss", "grad_norm")
    values = [(name, entry[name], entry.get("step")) for entry in history for name in names if name in entry]
    if not {"loss", "eval_loss"} <= {name for name, _, _ in values}:
        return ["no trainer_state.json with a log of losses and evaluations"]
    return [f"{name} is {value} at step {step}" for name, value, step in values if not math.isfinite(value)]


def call_problems(history: list[dict[str, Any]]) -> list[str]:
    """Calls that the trainer did not find in the answers: no tool was run, and no result was read."""
    found = [entry["tools/call_frequency"] for entry in history if "tools/call_frequency" in entry]
    return [] if any(found) else ["no call of a tool was found in an answer: look at tools.py and the chat template"]


def guessing_problems(history: list[dict[str, Any]], vocabulary: int) -> list[str]:
    """Why the evaluation before the first step is not that of random weights, which guess: a loss of ln(vocabulary)."""
    found = next((entry["eval_loss"] for entry in history if "eval_loss" in entry and not entry["step"]), None)
    if found is None:
        return ["no evaluation before the first step"]
    guess = math.log(max(vocabulary, 1))
    near = abs(found - guess) <= GUESSING * guess
    return [] if near else [f"the first eval_loss is {found:.3f}, a guess would be {guess:.3f}"]


def saved_problems(folder: Path, stage: BundleStage) -> list[str]:
    """Which of the files that the next step needs are missing."""
    needed = (*stage.adapts.saves, "tokenizer_config.json")
    problems = [f"{name} is missing" for name in needed if not (folder / name).is_file()]
    if not saved_weights(folder, stage):
        problems.append(f"no {stage.adapts.weights} in {folder.name}")
    if stage.saves and not any(folder.glob("checkpoint-*/run.json")):
        problems.append("no complete checkpoint")
    return problems


def saved_weights(folder: Path, stage: BundleStage) -> list[Path]:
    """The files in an output folder that hold what was trained, sorted."""
    return sorted(folder.glob(stage.adapts.weights))
