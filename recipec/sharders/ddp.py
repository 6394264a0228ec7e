"""DistributedDataParallel: the whole model on every device, gradients averaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.render.call import Arg
from recipec.render.mapping import Leaf
from recipec.sharders.sharder import Run, Sharder, accelerate_head


def _files(run: Run) -> dict[str, Mapping[str, Any]]:
    precision = {"fp32": "no"}.get(run.layout.precision, run.layout.precision)
    head = accelerate_head(run, "MULTI_GPU")
    return {"configs/accelerate.yaml": head | {"mixed_precision": Leaf(precision, run.ids("precision"))}}


DDP = Sharder(
    "ddp",
    "data parallel (DDP)",
    fact="ddp",
    config="configs/accelerate.yaml",
    files=_files,
    arguments=lambda run: [Arg("ddp_find_unused_parameters", False, run.ids("strategy"))],
)
