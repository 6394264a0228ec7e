"""Whether experts in layers of DeepSpeed-MoE get an even load, and drop no token that there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recipec.catalog.configs import architecture_from_config
from recipec.verify.bundle import BundleStage
from recipec.verify.learn_checks import History, logged, story
from recipec.verify.report import VerifyReport

LOADS = ("expert_load", "balance_loss", "dropped_tokens")
SPREAD = (
    2.0  # times an even share, of the fullest expert of any layer at the end; of 4 experts all tokens are 2 for k=2
)
ROUNDING = 1e-6


def check_experts(stage: BundleStage, config: Mapping[str, Any], history: History, report: VerifyReport) -> None:
    """Check what train.py logged of the routes of tokens; `config` is that of the saved model."""
    factor = stage.decisions.get("capacity_factor")
    moe = architecture_from_config(config).moe if factor and config else None
    if factor is None:
        return
    told = "; ".join(story(history, name) for name in LOADS)
    if moe is None:
        report.add(f"{stage.name}: experts", ["no config.json with experts was saved"], told)
        return
    share = min(1.0, moe.per_token / moe.count)  # of the tokens, for an expert with an even load
    problems = [*drop_problems(logged(history, "dropped_tokens"), factor * share), *load_problems(history, 1 / share)]
    report.add(f"{stage.name}: the load of the experts is even, and no token is dropped that has room", problems, told)


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
    """Loads that cannot be, or that did not become even: `most` is that of an expert which all tokens want."""
    loads = logged(history, "expert_load")
    wrong = [
        f"expert_load is {load:.2f}, not from 1 to {most:.2f}" for load in loads if not 1 <= load <= most + ROUNDING
    ]
    uneven = bool(loads) and loads[-1] >= max(1.0, min(SPREAD, 0.9 * most))
    return wrong + [f"expert_load ends at {loads[-1]:.2f}: one expert gets most tokens"] * uneven
