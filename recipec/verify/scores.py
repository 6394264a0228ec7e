"""Whether evaluate.py scores the rows that are held out, and by their loss: the same model is asked another way."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from recipec.verify.bundle import BundleStage
from recipec.verify.report import VerifyReport
from recipec.verify.sandbox import PROBES, Sandbox

LOSS_TOLERANCE = 0.003  # of the loss: the rounding of bf16 in batches with padding
_LIMIT_SECONDS = 180.0


def check_scores(
    sandbox: Sandbox, patches: Mapping[str, Any], stage: BundleStage, found: Mapping[str, Any], report: VerifyReport
) -> None:
    """Score the first held-out rows one by one with the model that evaluate.py loads, patched alike, and compare."""
    spoken = {
        "folder": str(sandbox.bundle.root / stage.folder),
        "rows": str(sandbox.bundle.root / "data" / stage.name / "test.jsonl"),
        "results": str(sandbox.root / f"scores-{stage.name}.json"),
    }
    command = ["python", str(PROBES / "scores.py"), json.dumps(spoken)]
    outcome = sandbox.run("scores", command, sandbox.environment(patches), _LIMIT_SECONDS)
    name = f"{stage.name}: evaluate.py scores the held-out rows by their loss"
    if not outcome.ok:
        report.add(name, outcome.tail())
        return
    known = json.loads((sandbox.root / f"scores-{stage.name}.json").read_text(encoding="utf-8"))
    loss = math.log(found["metrics"]["perplexity"])
    seen = f"{known['loss']:.4f} row by row, {loss:.4f} in after.json, of {known['rows']} rows of test.jsonl"
    report.add(name, score_problems(loss, found["rows"], known), seen)


def score_problems(loss: float, rows: int, known: Mapping[str, Any]) -> list[str]:
    """How the loss of `rows` rows differs from that of the first rows of test.jsonl, and how many there are."""
    problems = (
        [] if rows == known["rows"] else [f"after.json is of {rows} rows, test.jsonl has {known['rows']} to score"]
    )
    if not abs(loss - known["loss"]) <= LOSS_TOLERANCE * abs(known["loss"]):
        problems.append(f"after.json has a loss of {loss:.4f}, row by row it is {known['loss']:.4f}")
    return problems
