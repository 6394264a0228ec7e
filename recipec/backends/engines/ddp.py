"""DistributedDataParallel: the whole model on every device, gradients averaged."""

from __future__ import annotations

from recipec.backends.engines.engine import (
    EngineBackend,
    Files,
    Placement,
    accelerate_head,
    leaves,
    mixed_precision,
    seeded,
)
from recipec.render.call import Arg

_CONFIG = "configs/accelerate.yaml"


def _files(run: Placement) -> Files:
    return {_CONFIG: accelerate_head(run) | {"mixed_precision": mixed_precision(run)}}


BACKEND = EngineBackend(
    config=_CONFIG,
    deepspeed="",
    packages=(),
    files=_files,
    arguments=lambda run: [Arg("ddp_find_unused_parameters", False, run.ids("strategy"))],
    part=leaves,
    gathers_on_save=False,
    counts_passes=False,
    dtensors=False,
    shards_what_it_loads=False,
    recomputing="",
    equal_start=seeded,
)
