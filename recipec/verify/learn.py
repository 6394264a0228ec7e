"""The learn level: the same bundle with verification hyperparameters learns, reloads and resumes."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

from recipec.axes.strategies import TORCH_FSDP
from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.learn_checks import (
    epoch_problems,
    logit_problems,
    proofs_of,
    row_problems,
    story,
    weight_problems,
)
from recipec.verify.process import Outcome
from recipec.verify.report import VerifyReport
from recipec.verify.run import (
    Rehearsal,
    log_history,
    read_json,
    run_bundle,
    saved_weights,
)
from recipec.verify.sandbox import PROBES
from recipec.verify.sizes import (
    RESUME_BATCHES,
    batch_of,
    resuming_patches,
    resuming_steps,
    rows_of,
)

_FEWEST_ROWS = 24  # below this a tenth is less than two rows
_RELOAD_SECONDS = 180.0


def rows_to_learn(bundle: Bundle, ranks: int) -> int:
    """So many rows that RESUME_BATCHES global batches are left to train on when a tenth each is held out twice."""
    batch = max(batch_of(bundle, stage, ranks) for stage in bundle.stages)
    return max(_FEWEST_ROWS, math.ceil(rows_of(RESUME_BATCHES, batch) / 0.8))


def learn_bundle(launch: Rehearsal, report: VerifyReport) -> None:
    """Train on one batch's rows until they are learned; then reload, kill and resume. Raises UnknownProof first."""
    proofs = {stage.name: proofs_of(stage.method) for stage in launch.sandbox.bundle.stages}
    logits = launch.sandbox.root / "logits"
    logits.mkdir()
    if not run_bundle(launch, report, final_logits=str(logits)):
        report.skip("learning, reloading and resuming", "the bundle did not run to its end")
        return
    for stage in launch.sandbox.bundle.stages:
        history = log_history(launch.sandbox.outputs / stage.name)
        for proof in proofs[stage.name]:
            report.add(
                f"{stage.name}: {proof.title}",
                proof.found(history, stage.adapts.toy_share),
                story(history, proof.metric),
            )
    check_reload(launch, report)
    check_resume(launch, report)


def check_reload(launch: Rehearsal, report: VerifyReport) -> None:
    """Load what was saved in a fresh process, without the shim and with no file of the bundle but a kind of adapter."""
    sandbox, stage = launch.sandbox, launch.sandbox.bundle.last
    folder, module = sandbox.outputs / stage.name, stage.adapts.module
    spoken = {
        "folder": str(folder),
        "auto_class": stage.method.auto_class,
        "adapter": not stage.adapts.trains_all,
        "brought": str(stage.script.with_name(f"{module}.py")) if module else "",
        "autocast": stage.choice["precision"],
        "dtype": stage.model_options["dtype"],
        "quantized": stage.quantizing or None,
        "gathered": stage.spreads.engine == TORCH_FSDP and not (stage.adapts.trains_all or stage.adapts.quantized),
    }
    command = ["python", str(PROBES / "reload.py"), json.dumps(spoken)]
    outcome = sandbox.run("reload", command, sandbox.environment({}), _RELOAD_SECONDS)
    name = f"{stage.name}: the saved weights reload to the same logits"
    if not outcome.ok:
        report.add(name, outcome.tail())
        return
    trained = json.loads((sandbox.root / "logits" / f"{stage.name}.json").read_text(encoding="utf-8"))
    reloaded = read_json(folder / "reloaded.json")["logits"]
    report.add(name, *logit_problems(trained, reloaded, scores=not stage.method.writes))


_OTHER_PLAN = "0" * 16
_TRAINING_ONLY = "launch/training-only.sh"


def check_resume(launch: Rehearsal, report: VerifyReport) -> None:
    """Kill the last stage, resume it beside a half-written checkpoint, compare; start it again; offer another plan.

    It trains on several batches for several epochs, is killed within an epoch and goes on into the next.
    """
    stage = launch.sandbox.bundle.last
    whole, output = launch.sandbox.outputs / "whole", launch.sandbox.outputs / "killed"
    write_training_only(launch.sandbox.bundle, stage)
    several = resuming_patches(launch.sandbox.bundle, stage, launch.ranks)
    _, death, last = resuming_steps(stage)

    def train(name: str, folder: Path = output, **patches: Any) -> Outcome:
        arguments = ("--max-steps", str(last), "--output-dir", str(folder))
        noted = str(launch.sandbox.root / f"rows-{name}")
        return launch.start(name, _TRAINING_ONLY, *arguments, noted_rows=noted, **several, **patches)

    ended = train("whole", whole)
    if not report.add(f"{stage.name}: trains without a break", "" if ended.ok else ended.tail()):
        return
    killed = train("killed", die_after=death)
    if not report.add(f"{stage.name}: killed after a checkpoint", death_problems(killed, output, stage)):
        return
    half = half_written(output, *resuming_steps(stage)[:2])
    resumed = train("resumed")
    if not report.add(f"{stage.name}: resumes after the kill", "" if resumed.ok else resumed.tail()):
        return
    said = "" if f"Skipping {half}" in resumed.text() else f"{half.name} is not mentioned"
    report.add(f"{stage.name}: a half-written checkpoint is skipped", said)
    check_rows(launch, stage, report)
    check_weights(launch, stage, whole, output, report)
    again = train("again")
    report.add(f"{stage.name}: a finished training is not repeated", repetition_problems(again))
    give_another_plan(output)
    refused = train("refused")
    report.add(f"{stage.name}: another plan's checkpoint is refused", refusal_problems(refused))


def check_rows(launch: Rehearsal, stage: BundleStage, report: VerifyReport) -> None:
    """Compare the rows that two trainings saw at each step behind the checkpoint."""
    whole, resumed = (rows_by_step(launch.sandbox.root, name) for name in ("rows-whole", "rows-resumed"))
    saved, _, last = resuming_steps(stage)
    rows = sum(len(of_step) for step, of_step in resumed.items() if step >= saved)
    seen = f"both saw the same rows in steps {saved} to {last - 1}, {rows} in all"
    name = f"{stage.name}: the resumed training goes on with the rows that are left"
    report.add(name, row_problems(whole, resumed, saved), seen)
    if not (stage.decisions["packing"] or stage.method.generates):
        most = resuming_patches(launch.sandbox.bundle, stage, launch.ranks)["first_rows"][f"{stage.folder}train.py"]
        problems, seen = epoch_problems(whole, most, math.ceil(RESUME_BATCHES))
        report.add(f"{stage.name}: an epoch has every row", problems, seen)


def rows_by_step(folder: Path, name: str) -> dict[int, list[str]]:
    """Step -> the digests of its rows, of all ranks; from the files that the shim wrote."""
    found: dict[int, list[str]] = {}
    for path in sorted(folder.glob(f"{name}-*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            noted = json.loads(line)
            found.setdefault(noted["step"], []).extend(noted["rows"])
    return {step: sorted(rows) for step, rows in sorted(found.items())}


def check_weights(launch: Rehearsal, stage: BundleStage, whole: Path, resumed: Path, report: VerifyReport) -> None:
    """Compare the final weights of two trainings: to the bit where one process trains."""
    (saved, _, steps), exact = resuming_steps(stage), launch.ranks == 1
    last = f"checkpoint-{steps}"
    unrounded = bool(saved_weights(whole / last, stage))  # the result of full fine-tuning is rounded to bf16
    folders = [folder / last if unrounded else folder for folder in (whole, resumed)]
    problems = weight_problems(*(read_weights(folder, stage) for folder in folders), exact)
    how = "to the bit" if exact else "within the tolerance of several processes"
    state = read_json(whole / f"checkpoint-{saved}" / "trainer_state.json")
    epochs = f"resumed after {state.get('epoch'):g} epochs"
    report.add(f"{stage.name}: the resumed training ends with the same weights", problems, f"{how}, {epochs}")


def write_training_only(bundle: Bundle, stage: BundleStage) -> None:
    """A copy of the launch script that only trains `stage`: without preparation, evaluation, merging, other stages.

    What keeps --output-dir from a launch script goes with them.
    """
    text = into_any_folder((bundle.root / bundle.launcher).read_text(encoding="utf-8").replace("\\\n", " "))
    others = ('prepare_data.py"', 'evaluate.py"', 'merge_adapter.py"', 'train.py"')
    wanted = f"$BUNDLE/{stage.folder}train.py"
    kept = [
        line
        for line in text.splitlines()
        if wanted in line or line.lstrip().startswith("#") or not any(name in line for name in others)
    ]
    (bundle.root / _TRAINING_ONLY).write_text("\n".join(kept) + "\n", encoding="utf-8")


def into_any_folder(script: str) -> str:
    """A launch script that takes --output-dir, as nothing reads what it trains."""
    return re.sub(r"^ *--output-dir \|.*?;;\n", "", script, flags=re.MULTILINE | re.DOTALL)


def death_problems(outcome: Outcome, output: Path, stage: BundleStage) -> list[str]:
    """Whether the training died as it should, after a complete checkpoint and before its end."""
    saved, _, last = resuming_steps(stage)
    if outcome.ok:
        return ["the training was to die but ended well"]
    if not (output / f"checkpoint-{saved}" / "run.json").is_file():
        return [f"no complete checkpoint-{saved}: {outcome.tail()}"]
    if (output / f"checkpoint-{last}").exists():
        return ["the training had already finished"]
    return []


def half_written(output: Path, saved: int, death: int) -> Path:
    """Make a newer checkpoint as a crash while saving leaves it: some files, no end marker."""
    whole, half = output / f"checkpoint-{saved}", output / f"checkpoint-{death}"
    half.mkdir()
    shutil.copy(whole / "trainer_state.json", half)
    return half


def repetition_problems(outcome: Outcome) -> list[str]:
    """Whether a training whose result is there was done again, or failed."""
    if not outcome.ok:
        return [outcome.tail()]
    return [] if "NOT TRAINED" in outcome.text() else ["it was trained again"]


def give_another_plan(output: Path) -> None:
    """Make what was trained the stopped run of another plan."""
    (output / "finished.json").unlink()
    for marker in output.glob("checkpoint-*/run.json"):
        marker.write_text(json.dumps(read_json(marker) | {"plan": _OTHER_PLAN}), encoding="utf-8")


def refusal_problems(outcome: Outcome) -> list[str]:
    """Whether another plan's checkpoint was used, or refused for another reason."""
    if outcome.ok:
        return ["training went on from it"]
    return [] if f"another run (plan {_OTHER_PLAN}," in outcome.text() else [outcome.tail()]


def read_weights(folder: Path, stage: BundleStage) -> dict[str, Any]:
    """All tensors that a stage has saved directly in a folder."""
    from safetensors.torch import load_file

    return {name: tensor for path in saved_weights(folder, stage) for name, tensor in load_file(path).items()}
