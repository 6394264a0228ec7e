"""The model of a stage under FSDP: one rank of a node reads it, where every rank would hold a copy of its own."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part
from recipec.render.environment import snippet
from recipec.render.traced import Raw

LOADS = "load_model(config)"  # what the trainer is given in place of a name
DECIDE = ("adaptation", "precision", "strategy", "model", "world_size")


def first_reads_part(stage: StageJob) -> Part:
    """The function that reads the weights, or makes room for them."""
    if not stage.plan.needs.first_reads:
        return Part()
    ids, auto = stage.ids(*DECIDE), stage.method.auto_class
    names = {"config_class": Raw(stage.method.config), "auto_class": Raw(auto)}
    return Part(
        imports=(
            Import("torch", "", ids),
            Import("accelerate", "PartialState", ids),
            *(Import("transformers", name, ids) for name in (auto, "PreTrainedModel")),
        ),
        functions=(snippet("trl/first_reads.py.j2", names, ids),),
    )
