"""Networks behind modules of a frozen model: BottleneckConfig, a kind of adapter that the bundle brings to PEFT."""

from __future__ import annotations

from recipec.backends.adaptations.configuration import configured
from recipec.backends.job import StageJob
from recipec.backends.parts import Part
from recipec.render.call import Arg


def part(stage: StageJob) -> Part:
    """The adapters that the trainer puts into the model."""
    shape = stage.plan.work.lora
    assert shape is not None
    width = f"adapters {shape.bottleneck} wide in a model of {stage.job.facts.model.architecture.hidden_size:,}"
    return configured(
        stage,
        Arg("target_modules", list(shape.behind), stage.ids("adapters_after", "model")),
        Arg("reduction_factor", stage.value("reduction_factor"), stage.ids("reduction_factor", "model"), width),
    )
