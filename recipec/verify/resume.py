"""Killing a training and starting it again: it must end with the same weights as one that nothing happened to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from recipec.verify.bundle import Stage
from recipec.verify.hyperparameters import CHECKPOINT, DEATH, LEARN_STEPS
from recipec.verify.learn_checks import weight_problems
from recipec.verify.process import Outcome
from recipec.verify.report import VerifyReport
from recipec.verify.run import LAUNCHER, Launch

_OTHER_PLAN = "0" * 16
_TRAINING_ONLY = "launch/training-only.sh"


def check_resume(launch: Launch, report: VerifyReport) -> None:
    """Kill the last stage, resume it beside a half-written checkpoint, compare; then offer it another plan's."""
    stage = launch.sandbox.bundle.last
    output = launch.sandbox.outputs / "killed"
    write_training_only(launch.sandbox.bundle.root, stage)

    def train(name: str, **patches: Any) -> Outcome:
        arguments = ("--max-steps", str(LEARN_STEPS), "--output-dir", str(output))
        return launch.start(name, _TRAINING_ONLY, *arguments, **patches)

    killed = train("killed", die_after=DEATH)
    if not report.add(f"{stage.name}: killed after a checkpoint", death_problems(killed, output)):
        return
    half = half_written(output)
    resumed = train("resumed")
    if not report.add(f"{stage.name}: resumes after the kill", "" if resumed.ok else resumed.tail()):
        return
    said = "" if f"skipping {half}" in resumed.text() else f"{half.name} is not mentioned"
    report.add(f"{stage.name}: a half-written checkpoint is skipped", said)
    check_weights(launch, stage, output, report)
    for marker in output.glob("checkpoint-*/plan.txt"):
        marker.write_text(f"{_OTHER_PLAN} {LEARN_STEPS}", encoding="utf-8")
    refused = train("refused")
    report.add(f"{stage.name}: another plan's checkpoint is refused", refusal_problems(refused))


def check_weights(launch: Launch, stage: Stage, output: Path, report: VerifyReport) -> None:
    """Compare the final weights: to the bit where one process trains."""
    exact = launch.ranks == 1
    whole, resumed = (read_weights(folder) for folder in (launch.sandbox.outputs / stage.name, output))
    how = "to the bit" if exact else "within the tolerance of several processes"
    report.add(
        f"{stage.name}: the resumed training ends with the same weights", weight_problems(whole, resumed, exact), how
    )


def write_training_only(root: Path, stage: Stage) -> None:
    """A copy of the launch script that only trains `stage`: without preparation, evaluation, merging, other stages.

    The line that keeps --output-dir from several stages names train.py, too, and goes with them.
    """
    text = (root / LAUNCHER).read_text(encoding="utf-8").replace("\\\n", " ")
    others = ("prepare_data.py", "evaluate.py", "merge_adapter.py", "train.py")
    wanted = f"$BUNDLE/{stage.folder}train.py"
    kept = [
        line
        for line in text.splitlines()
        if wanted in line or line.lstrip().startswith("#") or not any(f'{name}"' in line for name in others)
    ]
    (root / _TRAINING_ONLY).write_text("\n".join(kept) + "\n", encoding="utf-8")


def death_problems(outcome: Outcome, output: Path) -> list[str]:
    """Whether the training died as it should, after a complete checkpoint and before its end."""
    if outcome.ok:
        return ["the training was to die but ended well"]
    if not (output / f"checkpoint-{CHECKPOINT}" / "plan.txt").is_file():
        return [f"no complete checkpoint-{CHECKPOINT}: {outcome.tail()}"]
    if (output / f"checkpoint-{LEARN_STEPS}").exists():
        return ["the training had already finished"]
    return []


def half_written(output: Path) -> Path:
    """Make a newer checkpoint as a crash while saving leaves it: some files, no end marker."""
    whole, half = output / f"checkpoint-{CHECKPOINT}", output / f"checkpoint-{DEATH}"
    half.mkdir()
    shutil.copy(whole / "trainer_state.json", half)
    return half


def refusal_problems(outcome: Outcome) -> list[str]:
    """Whether another plan's checkpoint was used, or refused for another reason."""
    if outcome.ok:
        return ["training went on from it"]
    return [] if "belongs to plan" in outcome.text() else [outcome.tail()]


def read_weights(folder: Path) -> dict[str, Any]:
    """All tensors of the safetensors files directly in a folder."""
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}
