"""`recipec plan --exact`: every stage of a plan simulated, beside what the formula says."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.planner.plan import Plan, StagePlan
from recipec.simulate.notes import obstacle

SCHEMA_VERSION = 1
SIMULATED_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")

Document = dict[str, Any]


def plan_exact(plan: Plan, architecture: Architecture, *, full_depth: bool = False) -> Document:
    """Simulate the chosen layout of each stage of a plan; about five seconds a stage, plus the imports."""
    return {
        "schema_version": SCHEMA_VERSION,
        "versions": {name: version(name) for name in SIMULATED_PACKAGES},
        "stages": [_stage(stage, architecture, full_depth) for stage in plan.stages],
    }


def _stage(plan: StagePlan, architecture: Architecture, full_depth: bool) -> Document:
    formula = {
        "peak_allocated_bytes": plan.memory.peak_allocated_bytes,
        "peak_stage": plan.memory.peak_moment,
        "stages": dict(plan.memory.moments),
    }
    against = obstacle(plan.layout, plan.work)
    common = {"name": plan.stage.label, "formula": formula, "usable_bytes": plan.usable_bytes}
    if against:
        return {**common, "simulated": None, "obstacle": against}
    from recipec.simulate.simulate import simulate  # torch and transformers: only where there is something to do

    found = simulate(architecture, plan.layout, plan.work, full_depth=full_depth)
    simulated = {
        "peak_allocated_bytes": found.peak_allocated_bytes,
        "peak_stage": found.peak_moment,
        "stages": dict(found.moments),
        "terms": dict(found.terms),
        "seconds": round(found.seconds, 1),
        "notes": list(found.notes),
    }
    difference = plan.memory.peak_allocated_bytes / found.peak_allocated_bytes - 1
    return {**common, "simulated": simulated, "obstacle": None, "difference": round(difference, 4)}
