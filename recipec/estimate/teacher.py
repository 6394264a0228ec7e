"""The other model of a distilling method, as a rank holds it.

TRL 1.16's GKDTrainer keeps a whole copy of it on every rank: `Accelerator.prepare_model(evaluation_mode=True)` wraps
nothing under DDP and FSDP, and under FSDP does not even move the model to the device, which the script must do. Only
DeepSpeed's engine under ZeRO-3 shards it (`prepare_deepspeed`: the other stages become stage 0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from recipec.axes.strategies import DEEPSPEED
from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import Activations, activations
from recipec.estimate.codepath import CodePath
from recipec.estimate.sharding import Gathered, gathered_by_zero3
from recipec.estimate.sizes import sizes
from recipec.layout import Layout


@dataclass(frozen=True, slots=True)
class Teacher:
    """A frozen model in the compute type."""

    architecture: Architecture
    path: CodePath
    layers: Activations
    resident: float  # bytes of its weights on a rank
    gathered_params: int  # by every pass over it; 0 where it is whole
    buffers: Gathered
    logit_bytes: int  # while a logit is made in the compute type and handed over


def teacher_of(architecture: Architecture | None, layout: Layout, path: CodePath) -> Teacher | None:
    """The teacher of a run whose policy takes the code path `path`."""
    if architecture is None:
        return None
    frozen = replace(path, residual=path.compute, quantized=0.0, adapter_copy=0, saves_frozen_inputs=0)
    sharded = layout.spreads.engine == DEEPSPEED and layout.spreads.shards_weights
    live, given = 0.0, path.handed_over_by_teacher
    if sharded:
        count = sizes(architecture, None, to_vocabulary=True)
        live = gathered_by_zero3(architecture.hidden_size, path.compute * count.layer, count, path)
    return Teacher(
        architecture=architecture,
        path=frozen,
        layers=activations(architecture, None, frozen),
        resident=path.compute * architecture.params / (path.weight_shards if sharded else 1),
        gathered_params=architecture.params if sharded else 0,
        buffers=Gathered(live, live, live),
        logit_bytes=path.compute + (given if given > path.compute else 0),
    )
