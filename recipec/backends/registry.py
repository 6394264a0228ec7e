"""registry/entry.json: the model's registry entry, drafted before training, and the JSON Schema it follows.

The fields are those of rule book 001, Model Registry, with one value for each stage where stages differ; what only a
run can tell is null until it has run.
"""

from __future__ import annotations

from typing import Any

from recipec.backends.hyperparameters import hyperparameters
from recipec.backends.job import Job, StageJob
from recipec.backends.methods import BACKENDS
from recipec.backends.models import added_by, starting_point
from recipec.backends.told_rows import sources_told
from recipec.catalog.stack import stack
from recipec.recipe.schema_registry import STATUSES
from recipec.render.artifact import Artifact
from recipec.render.mapping import Leaf


def registry_artifacts(job: Job) -> list[Artifact]:
    """The draft of the registry entry, and its schema."""
    ids = job.ids("model", "adaptation", "stage")
    return [
        Artifact("registry/entry.json", ids, mapping=_entry(job)),
        Artifact("registry/entry.schema.json", ids, mapping=entry_schema()),
    ]


def _entry(job: Job) -> dict[str, Any]:
    stage, recipe = job.last, job.loaded.recipe
    outputs = f"outputs/{stage.name}"
    return {
        "model_id": Leaf(job.name, stage.ids("model")),
        "description": recipe.recipe.description,
        "base_model": Leaf(_base_model(job), stage.ids("model", "stage")),
        "base_model_revision": Leaf(recipe.model.revision, stage.ids("model")),
        "license": Leaf(_license(job), stage.ids("model", "stage")),
        "method": [Leaf(_method(part), part.ids("adaptation", "quantization", "model")) for part in job.stages],
        "hyperparameters": {part.name: _hyperparameters(part) for part in job.stages},
        "dataset": {
            "name": {part.name: Leaf(sources_told(part), part.ids("data_format")) for part in job.stages},
            "size": _of_stages(job, "examples"),
            "hash": dict.fromkeys(_names(job)),
        },
        "metrics": {part.name: Leaf(_metrics(part), part.ids("stage")) for part in job.stages},
        "artifacts": {"model_path": outputs, "tokenizer_path": outputs, "checkpoints": outputs} | _adapter(stage),
        "training_metadata": {
            "plan_digest": job.plan_digest,
            "compute_hours": None,
            "gpu_type": Leaf(job.facts.gpu.name, stage.ids("gpu")),
            "gpu_count": {part.name: Leaf(part.plan.layout.gpus, part.ids("world_size")) for part in job.stages},
            "framework": Leaf(
                " + ".join(f"{name} {stack()[name]}" for name in _frameworks(job)),
                job.ids("adaptation", "quantization", "strategy"),
            ),
            "start_time": None,
            "end_time": None,
        },
        "status": recipe.registry.status or "experimental",
        "tags": list(recipe.registry.tags or ()),
    }


def _frameworks(job: Job) -> list[str]:
    """What the bundle trains with."""
    of_stages = [name for part in job.stages for name in (*part.adapts.packages, *part.engine.packages)]
    return [*dict.fromkeys(("torch", "transformers", "trl", *of_stages))]


def _names(job: Job) -> list[str]:
    return [part.name for part in job.stages]


def _of_stages(job: Job, id: str) -> dict[str, Leaf]:
    """A decision of every stage."""
    return {part.name: Leaf(part.value(id), part.ids(id)) for part in job.stages}


def _metrics(stage: StageJob) -> dict[str, None]:
    """What training and evaluate.py measure."""
    return dict.fromkeys((stage.method.judged_by, *BACKENDS[stage.method.name].measure_of(stage).metrics))


def _base_model(job: Job) -> str | None:
    """The model whose weights are in the result; None where training began with random ones."""
    return None if job.stages[0].method.random_weights else job.facts.model.name


def _license(job: Job) -> str | None:
    """That of the weights which training began with; none where they were random."""
    return None if job.stages[0].method.random_weights else job.facts.model.licence


def _adapter(stage: StageJob) -> dict[str, Any]:
    """What an adapter cannot do without, and where merge_adapter.py puts the whole model of one that merges."""
    if stage.adapts.trains_all:
        return {}
    if stage.job.tasks:
        base = Leaf(starting_point(stage), stage.ids("model", "stage"))
        paths = {f"adapter_{each.name}": f"outputs/{each.name}" for each in stage.job.stages}
        return {"model_path": "outputs", "checkpoints": "outputs", "adapter_base": base, **paths}
    merged = {"merged_path": f"outputs/{stage.name}/merged"} if stage.adapts.merges else {}
    return {"adapter_base": Leaf(starting_point(stage), stage.ids("model", "stage", *added_by(stage))), **merged}


def _method(stage: StageJob) -> str:
    if stage.method.random_weights:
        return f"{stage.name}: random weights, architecture of {stage.job.facts.model.name}"
    return f"{stage.name}: {stage.adapts.name}"


def _hyperparameters(stage: StageJob) -> dict[str, Any]:
    """The decisions by their ids; then the arguments that the recipe passes on to the trainer."""
    told = dict.fromkeys(("max_steps", "epochs"), ("max_steps", "epochs"))  # which of the two is there
    ids = hyperparameters(stage)
    passed_on = {"arguments": Leaf(dict(stage.plan.verbatim), stage.ids("stage"))} if stage.plan.verbatim else {}
    return {id: Leaf(stage.value(id), stage.ids(*told.get(id, (id,)))) for id in ids} | passed_on


def entry_schema() -> dict[str, Any]:
    """The published JSON Schema of a registry entry (draft-07)."""
    text, nullable, number = {"type": "string"}, {"type": ["string", "null"]}, {"type": ["number", "null"]}
    count = {"type": "integer", "minimum": 1}
    setting = {"type": ["number", "string", "boolean", "array", "null"]}
    passed_on = {"properties": {"arguments": {"type": "object"}}}
    properties: dict[str, Any] = {
        "model_id": text,
        "description": nullable,
        "base_model": nullable,
        "base_model_revision": nullable,
        "license": nullable,
        "method": {"type": "array", "items": text, "minItems": 1},
        "hyperparameters": _each_stage({"type": "object", **passed_on, "additionalProperties": setting}),
        "dataset": _object({"name": _each_stage(text), "size": _each_stage(count), "hash": _each_stage(nullable)}),
        "metrics": _each_stage({"type": "object", "additionalProperties": number}),
        "artifacts": {"type": "object", "additionalProperties": nullable},
        "training_metadata": _object(
            {
                "plan_digest": text,
                "compute_hours": number,
                "gpu_type": text,
                "gpu_count": _each_stage(count),
                "framework": text,
                "start_time": nullable,
                "end_time": nullable,
            }
        ),
        "status": {"enum": list(STATUSES)},
        "tags": {"type": "array", "items": text},
    }
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Model registry entry"} | _object(properties)


def _each_stage(schema: dict[str, Any]) -> dict[str, Any]:
    """One value for each stage, by its name."""
    return {"type": "object", "additionalProperties": schema, "minProperties": 1}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
