"""The learn level: the same bundle with verification hyperparameters learns, reloads and resumes."""

from __future__ import annotations

import json

from recipec.verify.bundle import Bundle
from recipec.verify.learn_checks import falling_problems, logit_problems, margin_problems
from recipec.verify.outcome_checks import expected_facts, log_history, loss_story, read_json
from recipec.verify.report import VerifyReport
from recipec.verify.resume import check_resume
from recipec.verify.run import Launch, run_bundle
from recipec.verify.source import call_arguments, function
from recipec.verify.static.frameworks import PROBES

_FEWEST_ROWS = 24  # below this a tenth is less than two rows
_RELOAD_SECONDS = 180.0


def rows_of_one_batch(bundle: Bundle, ranks: int) -> int:
    """So many rows that about one global batch is left to train on when a tenth each is held out twice."""
    batch = max(expected_facts(stage, ranks)["global_batch_size"] for stage in bundle.stages)
    return max(_FEWEST_ROWS, int(batch / 0.81))


def learn_bundle(launch: Launch, report: VerifyReport) -> None:
    """Train on one batch's rows until they are learned; then reload, kill and resume."""
    logits = launch.sandbox.root / "logits"
    logits.mkdir()
    if not run_bundle(launch, report, final_logits=str(logits)):
        report.skip("learning, reloading and resuming", "the bundle did not run to its end")
        return
    for stage in launch.sandbox.bundle.stages:
        history = log_history(launch.sandbox.outputs / stage.name)
        report.add(f"{stage.name}: the rows of one batch are learned", falling_problems(history), loss_story(history))
        if any("rewards/margins" in entry for entry in history):
            report.add(f"{stage.name}: preference margins rise", margin_problems(history))
    check_reload(launch, report)
    check_resume(launch, report)


def check_reload(launch: Launch, report: VerifyReport) -> None:
    """Load what was saved in a fresh process, without the bundle and without the shim, and compare its logits."""
    sandbox, stage = launch.sandbox, launch.sandbox.bundle.last
    folder = sandbox.outputs / stage.name
    spoken = {
        "folder": str(folder),
        "adapter": stage.choice["adaptation"] == "lora",
        "autocast": stage.choice["precision"],
        "dtype": stage.model_options["dtype"],
        "nf4": call_arguments(function(stage.script, "nf4_config")) if stage.choice["quantization"] == "nf4" else None,
    }
    command = ["python", str(PROBES / "reload.py"), json.dumps(spoken)]
    outcome = sandbox.run("reload", command, sandbox.environment({}, 1), _RELOAD_SECONDS)
    name = f"{stage.name}: the saved weights reload to the same logits"
    if not outcome.ok:
        report.add(name, outcome.tail())
        return
    trained = json.loads((sandbox.root / "logits" / f"{stage.name}.json").read_text(encoding="utf-8"))
    reloaded = read_json(folder / "reloaded.json")["logits"]
    report.add(name, *logit_problems(trained, reloaded))
