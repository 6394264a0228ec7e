"""Vectors that scale what modules give or take: PEFT's IA3Config."""

from __future__ import annotations

from recipec.backends.adaptations.configuration import configured
from recipec.backends.job import StageJob
from recipec.backends.parts import Part
from recipec.render.call import Arg

_INPUTS = "of these the inputs are scaled, of the others what they give"


def part(stage: StageJob) -> Part:
    """The vectors that the trainer puts into the model; PEFT's own names for them differ between model families."""
    vectors, ids = stage.plan.work.lora, stage.ids("ia3_scales", "model")
    assert vectors is not None
    mlp_out = stage.job.facts.model.architecture.modules.mlp_out
    inputs = [name for name in vectors.scaled if name == mlp_out]
    return configured(
        stage,
        Arg("target_modules", list(vectors.scaled), ids),
        Arg("feedforward_modules", inputs, ids, _INPUTS if inputs else ""),
    )
