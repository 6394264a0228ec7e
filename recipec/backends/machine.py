"""What a stage needs of the machine around its devices: disk and CPU memory."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.catalog.architecture import Architecture
from recipec.estimate.storage import HostMemory, Storage, host_memory, run_storage
from recipec.estimate.work import Work
from recipec.planner.settle import work_of
from recipec.rules.core import Ledger

GIB = 2**30


def storage(stage: StageJob) -> Storage:
    """Bytes on disk that the stage writes or downloads."""
    tokens = round(stage.value("examples") * stage.value("tokens_per_example"))
    return run_storage(_shape(stage), stage.plan.layout, _work(stage), stage.value("keep_checkpoints"), tokens)


def host(stage: StageJob) -> HostMemory:
    """CPU memory of a node."""
    per_node = stage.job.loaded.recipe.hardware.gpus_per_node or 1
    return host_memory(_shape(stage), stage.plan.layout, _work(stage), per_node)


def output_gib(stage: StageJob) -> float:
    """What the stage writes below its output folder, in GiB: checkpoints, the result, a merged model if one follows."""
    disk = storage(stage)
    merged = disk.hub_cache_bytes if stage.merges else 0
    return round((disk.checkpoints_bytes + disk.export_bytes + merged) / GIB, 1)


def _shape(stage: StageJob) -> Architecture:
    return stage.job.facts.model.architecture


def _work(stage: StageJob) -> Work:
    return work_of(Ledger(decisions=dict(stage.plan.decisions)))
