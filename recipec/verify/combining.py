"""Whether combine.py of a bundle with several adapters does what it says: exact merges, a whole table, own answers; and
whether a mix of them left them as they were."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recipec.verify.report import VerifyReport
from recipec.verify.run import Rehearsal
from recipec.verify.sandbox import PROBES

SCRIPT = "combine.py"
MOST_APART = 1e-5  # of the largest logit: sums of fp32 in another order
_QUESTION = "What does question 7 ask?"
_LIMIT_SECONDS = 600.0
_HOWS = ("linear", "ties", "dare")


def check_combining(launch: Rehearsal, report: VerifyReport) -> None:
    """Run merge, compare and ask of combine.py with what was trained, where the bundle has it."""
    sandbox = launch.sandbox
    if not (sandbox.bundle.root / SCRIPT).is_file():
        return
    untrained = [stage.name for stage in sandbox.bundle.stages if not _finished(sandbox.outputs / stage.name)]
    if untrained:
        report.skip(SCRIPT, f"there is no adapter of {', '.join(untrained)}")
        return
    results = sandbox.root / "combining.json"
    spoken = {"folder": str(sandbox.bundle.root), "question": _QUESTION, "results": str(results)}
    command = ["python", str(PROBES / "combining.py"), json.dumps(spoken)]
    outcome = sandbox.run("combining", command, sandbox.environment(launch.patches), _LIMIT_SECONDS)
    if not report.add(f"{SCRIPT} merges, compares and asks", "" if outcome.ok else outcome.tail()):
        return
    found = json.loads(results.read_text(encoding="utf-8"))
    if "merged_apart" in found:
        said = f"the largest difference is {found['merged_apart']:.1e} of the largest logit"
        report.add(f"{SCRIPT}: a linear merge is the weighted sum of the updates", merge_problems(found), said)
    if "frozen" in found:
        moved = [f"{name} is another than in the adapter's own result" for name in found["frozen"]]
        report.add("the mixed adapters are, to the bit, those that their tasks trained", moved)
    said = f"{found['ensemble_apart']:.1e} of the largest probability"
    report.add(f"{SCRIPT}: an ensemble is the mean of its adapters' probabilities", ensemble_problems(found), said)
    report.add(f"{SCRIPT}: the comparison is whole and finite", table_problems(found), shown(found["table"]))
    report.add(
        f"{SCRIPT}: a routed question gets its adapter's own answer", answer_problems(found), found["routed"][:80]
    )


def _finished(folder: Path) -> bool:
    return (folder / "finished.json").is_file()


def merge_problems(found: Mapping[str, Any]) -> list[str]:
    """Merges that did not end well, differ from the sum, or leave the first adapter as it was."""
    said = found["said"]
    problems = [f"merge --how {how}: {said[how]}" for how in _HOWS if "an adapter of rank" not in said[how]]
    if "not parts of a whole" not in said["unequal"]:
        problems.append(f"shares that add up to more than 1 are not refused: {said['unequal']}")
    if not found["merged_apart"] <= MOST_APART:
        problems.append(f"the logits are {found['merged_apart']:.1e} off those of the weighted sum")
    if not found["moved"] > 100 * MOST_APART:
        problems.append("the merged adapter is the first one")
    return problems


def ensemble_problems(found: Mapping[str, Any]) -> list[str]:
    """How far the ensemble is from the mean, where that is too far."""
    off = found["ensemble_apart"]
    return [] if off <= MOST_APART else [f"its probabilities are {off:.1e} off"]


def table_problems(found: Mapping[str, Any]) -> list[str]:
    """Rows and columns that the comparison lacks, and losses that are none."""
    table, tasks = found["table"], list(found["asked"])
    problems = [f"no row of {task}" for task in tasks if task not in table]
    needed = ("base", *tasks, "ensemble", *["fused"] * ("fused" in found), "routed here")
    for task, losses in table.items():
        problems += [f"{task} has no column {name}" for name in needed if name not in losses]
        problems += [f"{task}, {name}: {loss}" for name, loss in losses.items() if not math.isfinite(loss) or loss < 0]
        merged = [name for name in losses if name not in needed]
        hows = _HOWS[1:] if "said" in found else ()
        problems += [f"{task} has no column of a merge with {how}" for how in hows if not _has(merged, how)]
    return problems


def _has(merged: list[str], how: str) -> bool:
    return any(name.startswith(how) for name in merged)


def answer_problems(found: Mapping[str, Any]) -> list[str]:
    """Answers that are not those of the adapter that is named."""
    speaker = found["routed"].partition(":")[0]
    asked = found["asked"] | ({"fused": found["fused"]} if "fused" in found else {})
    problems = [] if speaker in found["own"] else [f"routed to nobody: {found['routed']}"]
    problems += [f"routed: {found['routed']!r}, alone: {found['own'][speaker]!r}"] * (
        speaker in found["own"] and found["routed"] != found["own"][speaker]
    )
    return problems + [
        f"asked as {task}: {said!r}, alone: {found['own'][task]!r}"
        for task, said in asked.items()
        if said != found["own"][task]
    ]


def shown(table: Mapping[str, Mapping[str, float]]) -> str:
    """The losses of each task."""
    parts = (
        f"{task}: {', '.join(f'{name} {loss:.3f}' for name, loss in losses.items())}" for task, losses in table.items()
    )
    return "; ".join(parts)
