"""What a stage needs of the machine around its devices: disk and CPU memory."""

from __future__ import annotations

from recipec.backends.job import Job, StageJob
from recipec.catalog.architecture import Architecture
from recipec.estimate.storage import PROCESS_BYTES, HostMemory, Storage, host_memory, run_storage
from recipec.estimate.work import Work
from recipec.facts.model import is_path
from recipec.planner.settle import work_of
from recipec.render.traced import Traced
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


def needs(job: Job) -> list[Traced]:
    """What the whole run needs, in the words of the README: the largest stage's memory, all stages' disk."""
    names = ("prediction", "keep_checkpoints", "world_size", "model")
    ids = tuple(id for stage in job.stages for id in stage.ids(*names))
    lines = [*_memory(job), _disk(job), "Python 3.11 or newer, and the packages of requirements.txt"]
    if job.facts.model.gated:
        lines.append(f"a hub token in HF_TOKEN: {job.facts.model.name} is gated")
    return [Traced(line, ",".join(ids)) for line in lines]


def _memory(job: Job) -> list[str]:
    peak = max(stage.plan.memory.peak_reserved_bytes for stage in job.stages) / GIB
    if job.last.on_cpu:
        return [f"CPU memory: {peak + PROCESS_BYTES / GIB:.1f} GiB (predicted); no GPU"]
    gpu, count = job.facts.gpu, max(stage.value("world_size") for stage in job.stages)
    needed = max(host(stage).needed_bytes for stage in job.stages) / GIB
    return [
        f"GPUs: {count} x {gpu.name}; {peak:.1f} GiB of each one's {gpu.memory_gib:g} GiB are used (predicted)",
        f"CPU memory: {needed:.0f} GiB on every node (predicted)",
    ]


def _disk(job: Job) -> str:
    found = [storage(stage) for stage in job.stages]
    model = 0 if is_path(job.facts.model.name) else found[0].hub_cache_bytes / GIB
    rows = sum(disk.dataset_cache_bytes for disk in found) / GIB
    outputs = sum(map(output_gib, job.stages))
    parts = f"model {model:.1f}, prepared data {rows:.1f}, checkpoints and results {outputs:.1f}"
    return f"Disk: {model + rows + outputs:.1f} GiB (predicted: {parts})"


def _shape(stage: StageJob) -> Architecture:
    return stage.job.facts.model.architecture


def _work(stage: StageJob) -> Work:
    return work_of(Ledger(decisions=dict(stage.plan.decisions)))
