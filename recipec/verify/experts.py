"""Whether experts in layers of DeepSpeed-MoE have loads that can be, and drop no token that there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recipec.catalog.configs import architecture_from_config
from recipec.verify.bundle import BundleStage
from recipec.verify.learn_checks import History, logged, story
from recipec.verify.report import VerifyReport

LOADS = ("expert_load", "balance_loss", "dropped_tokens")
ROUNDING = 1e-6


def check_experts(stage: BundleStage, config: Mapping[str, Any], history: History, report: VerifyReport) -> None:
    """Check what train.py logged of the routes of tokens; `config` is that of the saved model.

    A toy that learns one batch by heart does not show that its load becomes even: its steps are too few.
    """
    factor = stage.decisions.get("capacity_factor")
    if factor is None:
        return
    moe = architecture_from_config(config).moe if config else None
    told = "; ".join(story(history, name) for name in LOADS)
    if moe is None:
        report.add(f"{stage.name}: experts", ["no config.json with experts was saved"], told)
        return
    share = min(1.0, moe.per_token / moe.count)  # of the tokens, for an expert with an even load
    problems = [*drop_problems(logged(history, "dropped_tokens"), factor * share), *load_problems(history, 1 / share)]
    report.add(f"{stage.name}: experts drop no token that they have room for", problems, told)


def drop_problems(dropped: Sequence[float], room: float) -> list[str]:
    """Shares of dropped tokens that cannot be: an expert keeps `room` of all tokens, even where all want it."""
    most = max(0.0, 1.0 - room)
    if not dropped:
        return ["dropped_tokens is not logged"]
    return [
        f"{share:.1%} are dropped, and at most {most:.1%} can be"
        for share in dropped
        if not 0 <= share <= most + ROUNDING
    ]


def load_problems(history: History, most: float) -> list[str]:
    """Loads that cannot be: `most` is that of an expert which all tokens want."""
    loads = logged(history, "expert_load")
    return [
        f"expert_load is {load:.2f}, not from 1 to {most:.2f}" for load in loads if not 1 <= load <= most + ROUNDING
    ]
