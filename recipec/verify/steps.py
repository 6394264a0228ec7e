"""Whether the steps of a run change weights: by their learning rates, and by the gradients that reach the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recipec.verify.bundle import BundleStage
from recipec.verify.report import VerifyReport

LEAST_OF_RATE = 0.3  # that the few steps of a run reach of the planned rate, before it falls
NAME = "the steps change weights"


def check_steps(stage: BundleStage, history: Sequence[Mapping[str, Any]], planned: float, report: VerifyReport) -> None:
    """Check the logged learning rates and norms of gradients of a stage; `planned` is its highest rate."""
    rates, norms = (_logged(history, name) for name in ("learning_rate", "grad_norm"))
    said = f"the largest logged learning_rate is {max(rates, default=0.0):.3g}"
    still = bool(norms) and not any(norms)
    if still and stage.method.earns and not rate_problems(rates, planned):
        why = "all answers to a prompt had the same reward, which gives no gradient; `--level learn` has other rewards"
        report.skip(f"{stage.name}: {NAME}", why)
        return
    problems = [*rate_problems(rates, planned), *(["every logged grad_norm is 0: look at the loss"] if still else [])]
    report.add(f"{stage.name}: {NAME}", problems, f"{said}, the largest grad_norm {max(norms, default=0.0):.3g}")


def _logged(history: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [entry[name] for entry in history if name in entry]


def rate_problems(rates: Sequence[float], planned: float) -> list[str]:
    """Why no step of a run changes a weight, or steps have another learning rate than planned, or put in its place."""
    highest = max(rates, default=0.0)
    if highest and LEAST_OF_RATE * planned <= highest <= planned * (1 + 1e-6):
        return []
    if highest:
        return [f"the largest logged learning_rate is {highest:.3g}, and {planned:.3g} is planned: look at train.py"]
    return ["every logged learning_rate is 0, so that no weight changes: look at warmup_steps in train.py"]
