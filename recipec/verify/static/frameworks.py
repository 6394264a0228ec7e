"""The configurations by their own frameworks, each in a clean process: accelerate, DeepSpeed, TRL."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.process import ASK_SECONDS, ask, clean_environment
from recipec.verify.report import VerifyReport
from recipec.verify.sandbox import PROBES, SHIM

PYTHON = sys.executable  # which reads the configurations
_LAST_LINES = 8
_KNOW_PROJECTS = ("wandb", "mlflow")  # of the trackers; transformers hands a project to no other one


def check_frameworks(bundle: Bundle, report: VerifyReport) -> None:
    """One check for each configuration file, and one for each stage's trainer configuration."""
    for path in bundle.ending(".yaml"):
        if "distributed_type" in path.read_text(encoding="utf-8", errors="replace"):
            report.add(f"accelerate reads {bundle.name_of(path)}", probe("accelerate_yaml", path))
    world = str(max(stage.choice["world_size"] for stage in bundle.stages))
    for path in bundle.ending(".json"):
        if path.name == "deepspeed.json":
            report.add(f"DeepSpeed reads {bundle.name_of(path)}", probe("deepspeed_json", path, world))
    for stage in bundle.stages:
        if stage.loop.own:
            continue  # it has no configuration of a trainer; what its settings say is held against the plan
        _check_configuration(bundle, stage, report)


def _check_configuration(bundle: Bundle, stage: BundleStage, report: VerifyReport) -> None:
    """What a stage's train.py builds: its arguments, its learning rates, and what its trackers are told."""
    script, tracking = f"{stage.folder}train.py", _tracking(bundle, stage)
    planned = {"arguments": _planned(stage), "steps": stage.decisions["total_steps"], "tracking": tracking}
    planned |= {"processes": stage.choice["world_size"]}
    told = answer("trainer_config", stage.script, json.dumps(planned))
    found = told if isinstance(told, dict) and "configuration" in told else {"configuration": list(told)}
    report.add(f"{script} builds its trainer configuration", found["configuration"])
    if "rates" in found:
        report.add(f"{script} learns in its planned steps", found["rates"], found["rates seen"])
    if "trackers" in found and tracking["trackers"]:
        passed = f"{' and '.join(tracking['trackers'])} would get {_named(tracking)} from transformers' own callbacks"
        report.add(f"{script} tells its trackers project and run", found["trackers"], passed)


def _tracking(bundle: Bundle, stage: BundleStage) -> dict[str, Any]:
    """What the plan says that trackers which know projects are told."""
    facts, apart = stage.decisions, f"-{stage.name}" * (len(bundle.stages) > 1)
    trackers = [facts["tracker"]] if isinstance(facts["tracker"], str) else facts["tracker"]
    return {
        "trackers": [name for name in trackers if name in _KNOW_PROJECTS],
        "project": facts.get("track_project"),
        "run": f"{facts['track_run']}{apart}" if "track_run" in facts else None,  # of an older plan
    }


def _named(tracking: dict[str, Any]) -> str:
    project = f"the project {tracking['project']}" if tracking["project"] else "their own project"
    return f"{project} and the run {tracking['run']}"


def _planned(stage: BundleStage) -> dict[str, Any]:
    """Attributes of the built configuration that the plan decides."""
    planned = {
        "per_device_train_batch_size": stage.choice["micro_batch_size"],
        "gradient_accumulation_steps": stage.choice["gradient_accumulation"],
        "learning_rate": stage.decisions["learning_rate"],
        "activation_checkpointing": stage.choice["checkpointing"],
    }
    return planned | (_recomputation(stage) if planned["activation_checkpointing"] else {})


def _recomputation(stage: BundleStage) -> dict[str, Any]:
    """Which layers, how, and where their inputs wait."""
    choice, how = stage.choice, {"use_reentrant": stage.spreads.reenters(stage.adapts)}
    layers = {"every_n_layers": choice["recompute_every"]} if choice["recompute_every"] > 1 else {}
    places = {"offload": True} if choice["activation_offload"] else {}
    return {"activation_checkpointing_kwargs": how | layers | places}


def probe(name: str, *arguments: str | Path) -> list[str]:
    """Run a script of probes/; the problems that it finds."""
    return list(answer(name, *arguments))


def answer(name: str, *arguments: str | Path) -> Any:
    """What a script of probes/ prints as its last line, in a clean process with the shim; else a list of problems."""
    with TemporaryDirectory(prefix="recipec-probe-") as home:
        shim = {"arguments": {"use_cpu": True}, "number-formats": True, "fp8": True}
        environment = clean_environment(Path(home)) | {
            "PYTHONPATH": str(SHIM),
            "CPU_STAND_IN": json.dumps(shim),
            "DS_ACCELERATOR": "cpu",
            "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [PYTHON, str(PROBES / f"{name}.py"), *map(str, arguments)]
        done = ask(command, folder=Path(home), environment=environment)
    if done.code is None:
        return [f"no answer within {ASK_SECONDS:.0f} s"]
    try:
        told = json.loads(done.output.splitlines()[-1])
    except (IndexError, ValueError, RecursionError):
        told = None
    if isinstance(told, list | dict):
        return told
    return ["\n".join((done.output + done.errors).splitlines()[-_LAST_LINES:])]
