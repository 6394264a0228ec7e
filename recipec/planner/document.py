"""The plan as JSON: what `recipec plan --format json` prints and `.recipec/plan.json` holds, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from msgspec import to_builtins

from recipec.facts import Facts
from recipec.planner.plan import Plan, StagePlan
from recipec.planner.untrained import UNTRAINED
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_training import attribute
from recipec.rules.core import RULES, Decision

SCHEMA_VERSION = 1


def plan_json(plan: Plan) -> bytes:
    """The plan as stable UTF-8 JSON."""
    return (json.dumps(plan_document(plan), indent=2, ensure_ascii=False) + "\n").encode()


def plan_document(plan: Plan) -> dict[str, Any]:
    """The JSON model of a plan; human output is rendered from it."""
    return {
        "schema_version": SCHEMA_VERSION,
        **({"model_selection": to_builtins(plan.selection)} if plan.selection else {}),
        "stages": [stage_document(stage) for stage in plan.stages],
        "total": {"seconds": round(plan.seconds), "usd": None if plan.cost_usd is None else round(plan.cost_usd, 2)},
    }


def plan_digest(stages: Iterable[tuple[LoadedRecipe, Facts, StagePlan]]) -> str:
    """Sixteen hexadecimal digits of all stages."""
    return _digest([stage_digest(*stage) for stage in stages])


def stage_digest(loaded: LoadedRecipe, facts: Facts, stage: StagePlan) -> str:
    """Sixteen hexadecimal digits that change with anything that the stage's training depends on, and nothing else.

    The rows are not in it: a bundle has the digest of those that it prepared.
    """
    recipe = loaded.recipe
    return _digest(
        {
            "choice": _choice(stage),
            "decisions": {id: d.value for id, d in stage.decisions.items() if trains(d)},
            "model": (recipe.model.revision, recipe.model.trust_remote_code or None, stage.stage.starts_from),
            "arguments": (recipe.train.arguments, getattr(recipe.train, attribute(stage.stage.name)).arguments),
            "template": facts.template_text,
            **({"new_tokens": facts.new_tokens} if facts.new_tokens else {}),
        }
    )


def _digest(parts: Any) -> str:
    return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def trains(decision: Decision) -> bool:
    """Whether training depends on a decision: all do but those of rules whose `trains` is false, and of UNTRAINED.

    How the model was chosen does not either: a recipe that names the chosen one trains the same.
    """
    if decision.id.startswith("model_"):
        return False
    return RULES[decision.rule].trains if decision.rule else decision.id not in UNTRAINED


def stage_document(plan: StagePlan) -> dict[str, Any]:
    """The JSON model of a stage's plan."""
    return {
        "name": plan.stage.label,
        "objective": plan.stage.name,
        "choice": _choice(plan),
        "memory": _memory(plan),
        "time": {
            "seconds": round(plan.seconds),
            "run_seconds": plan.told_seconds,
            "reference_seconds": round(plan.reference_seconds),
            "steps": plan.steps,
            "seconds_per_step": _short(plan.time.seconds_per_step),
            "tokens_per_second_per_gpu": _rate(plan.time.tokens_per_second_per_gpu),
            "terms": {name: _short(seconds) for name, seconds in plan.time.terms.items()},
            "bound_by": plan.time.bound_by,
            "mfu": _short(plan.time.mfu),
            "waiting_share": _short(plan.needs.waiting_share),
            "shorter_waits": list(plan.shorter_waits),
            **_band(plan),
        },
        "run": [{"part": part.name, "seconds": part.told_seconds, "because": part.because} for part in plan.parts],
        **({"measured": to_builtins(plan.needs.basis)} if plan.needs.basis else {}),
        "cost": {"usd": None if plan.cost_usd is None else round(plan.cost_usd, 2), "because": plan.cost_because},
        "storage": to_builtins(plan.needs.storage),
        "host": {
            **to_builtins(plan.needs.host),
            "loader_cores_per_gpu": plan.needs.loader_cores_per_gpu,
            "with_more": plan.more_host_memory,
        },
        "evaluation": to_builtins(plan.needs.evaluation),
        "decisions": [to_builtins(decision) for decision in plan.decisions.values()],
        **({"passed_on": dict(plan.verbatim)} if plan.verbatim else {}),
        "rejected": [
            {
                "family": rejected.family,
                "reason": rejected.reason,
                "peak_allocated_bytes": rejected.peak_allocated_bytes,
                "seconds": None if rejected.seconds is None else round(rejected.seconds),
                "usd": _training_usd(plan, rejected.seconds),
            }
            for rejected in plan.rejected
        ],
        "options": list(plan.options),
        "next_better": None if plan.next_better is None else to_builtins(plan.next_better),
    }


def _training_usd(plan: StagePlan, seconds: float | None) -> float | None:
    """What so many seconds of training cost, at the price of the whole run."""
    if seconds is None or plan.cost_usd is None:
        return None
    return round(plan.cost_usd * seconds / plan.run_seconds, 2)


def _band(plan: StagePlan) -> dict[str, Any]:
    """Measured over predicted step time of the published runs, and whether runs of this kind were among them."""
    time = plan.time
    said = {"scored": time.scored, "band": time.band and list(time.band), "band_source": time.band_source}
    return {**said, "slower": time.slower}


def _rate(tokens_per_second: float) -> float:
    """Whole tokens, or two digits of a slow run."""
    return round(tokens_per_second) if tokens_per_second >= 10 else float(f"{tokens_per_second:.2g}")


def _choice(plan: StagePlan) -> dict[str, Any]:
    layout = plan.layout
    return {
        "adaptation": layout.adapts.family,
        "quantization": layout.quantization,
        "precision": layout.precision,
        "strategy": layout.strategy,
        "mesh": to_builtins(layout.mesh),
        "offload": layout.offload,
        "world_size": layout.mesh.world_size,
        "micro_batch_size": layout.micro_batch,
        "gradient_accumulation": layout.accumulation,
        "global_batch_size": layout.global_batch,
        "checkpointing": layout.checkpointing,
        "recompute_every": layout.recompute_interval,
        "activation_offload": layout.activation_offload,
        "attention": layout.attention,
        "packing": layout.packing,
        "optimizer": layout.optimizer,
        "can_be_built": layout.can_be_built,
    }


def _memory(plan: StagePlan) -> dict[str, Any]:
    memory = plan.memory
    return {
        "peak_allocated_bytes": memory.peak_allocated_bytes,
        "peak_reserved_bytes": memory.peak_reserved_bytes,
        "peak_device_bytes": memory.peak_device_bytes,
        "capacity_bytes": plan.capacity_bytes,
        "usable_bytes": plan.usable_bytes,
        "tight": plan.tight,
        "host_bytes": memory.host_bytes,
        "terms": dict(memory.terms),
        "stages": dict(memory.moments),
        "peak_stage": memory.peak_moment,
        "error_band": to_builtins(memory.error_band),
    }


def _short(value: float) -> float:
    """Four significant digits: enough to read, and the same on every machine."""
    return float(f"{value:.4g}")
