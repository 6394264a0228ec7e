"""What a stage needs of the machine around its devices: disk and host memory."""

from __future__ import annotations

from typing import Any

from recipec.backends.adaptations.packed import PACKED
from recipec.backends.generators import server_log
from recipec.backends.job import Job, StageJob
from recipec.backends.models import EXTENDED, TEXT_PART, gated
from recipec.backends.parts import Import, Part, lines
from recipec.backends.trackers import trackers
from recipec.render.traced import Traced
from recipec.rules.words import evaluation
from recipec.units import GIB, gib

_PEAK_OF_PROCESS = """\
peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"The peak memory of the process is {peak_gib:.2f} GiB; predicted are {PREDICTED_PEAK_GIB} GiB.")"""
_PEAK_OF_DEVICE = """\
peak_gib = torch.accelerator.max_memory_allocated() / 2**30
print(f"Peak of rank {trainer.args.process_index}: {peak_gib:.2f} GiB allocated, {PREDICTED_PEAK_GIB} predicted.")"""


def peak_part(stage: StageJob) -> Part:
    """The last words of a run: the memory it took at most, beside the prediction."""
    ids = stage.ids("gpu")
    module, text = ("resource", _PEAK_OF_PROCESS) if stage.on_cpu else ("torch", _PEAK_OF_DEVICE)
    return Part(imports=(Import(module, "", ids),), after_saving=lines(ids, *text.splitlines()))


def gpu_names(job: Job) -> dict[str, Any]:
    """What templates read of the planned GPUs, for a run that sees none of them."""
    count = max(-(-stage.value("world_size") // stage.nodes) + stage.served_by for stage in job.stages)
    return {
        "on_gpu": job.because(not job.last.on_cpu, "gpu"),
        "node_gpus": job.because(count, "world_size"),
        "gpu": job.because(job.facts.gpu.name, "gpu"),
        "several_nodes": job.because(job.nodes > 1, "world_size"),
    }


def output_gib(stage: StageJob) -> float:
    """What the stage needs below its output folder, in GiB: for checkpoints, the result and the merged model of an
    adapter, or for the save that is tried before them."""
    return round(stage.plan.needs.storage.outputs_bytes / GIB, 1)


def written_gib(job: Job) -> dict[str, str]:
    """What a run writes below folders of the bundle and into the caches of datasets and of models, in GiB."""
    disks = [stage.plan.needs.storage for stage in job.stages]
    prepared = sum(disk.prepared_bytes for disk in disks)
    packed = sum(stage.plan.needs.storage.packed_bytes for stage in job.stages if stage.start)
    sizes = {
        "data/": prepared,
        "datasets": sum(disk.dataset_cache_bytes for disk in disks) - prepared,
        "models": sum(disk.hub_cache_bytes for disk in disks),
        "outputs/": sum(disk.outputs_bytes for disk in disks) + packed,
        **{f"{folder}/": size for folder, size in made_bytes(job).items()},
    }
    return {name: f"{size / GIB:.1f}" for name, size in sizes.items()}


def made_bytes(job: Job) -> dict[str, int]:
    """The folders of the bundle that scripts make of the recipe's model, and what they hold; stages share them."""
    made = [TEXT_PART] * (job.facts.model.stored is not None) + [EXTENDED] * bool(job.facts.new_tokens)
    copies = sum(stage.plan.needs.storage.made_bytes for stage in job.stages)
    packed = [stage.plan.needs.storage.packed_bytes for stage in job.stages if not stage.start]
    return {folder: copies // len(made) for folder in made} | ({PACKED: max(packed)} if any(packed) else {})


def merged_gib(stage: StageJob) -> float:
    """What merge_adapter.py writes for the last stage, in GiB; `output_gib` has it where another stage follows."""
    return round(stage.plan.needs.merged_bytes / GIB, 1)


def needs(job: Job) -> list[Traced]:
    """What the whole run needs, in the words of the README: the largest stage's memory, all stages' disk."""
    ids = job.ids("like", "prediction", "keep_checkpoints", "world_size", "model", "dataloader_workers", "tracker")
    lines = [
        *_memory(job),
        *_evaluation(job),
        _disk(job),
        *_merging(job),
        *_nodes(job),
        *_tracking(job),
        "Python 3.11 or newer, and the packages of requirements.txt",
    ]
    if like := job.last.value("like"):
        lines.append(f"What is predicted here holds for the shape of {like}, which the recipe names for this model")
    lines += [f"a hub token in HF_TOKEN: {name} is gated" for name in gated(job)]
    return [Traced(line, ",".join(ids)) for line in lines]


def _memory(job: Job) -> list[str]:
    host = max((stage.plan.needs.host for stage in job.stages), key=lambda host: host.needed_bytes)
    needed = host.needed_bytes / GIB
    if job.last.on_cpu:
        return [f"Memory: {needed:.1f} GiB (predicted); no GPU"]
    gpu, count = job.facts.gpu, max(stage.plan.layout.gpus for stage in job.stages)
    cores = max(stage.plan.needs.loader_cores_per_gpu for stage in job.stages)
    loading = f"; cores for the data: {cores} per GPU" if cores else ""
    peak = max(stage.plan.memory.peak_device_bytes for stage in job.stages) / GIB
    return [
        f"GPUs: {count} x {gpu.name}; {peak:.1f} of {gpu.memory_gib:.1f} GiB GPU memory (predicted){_served(job)}",
        f"Host memory: {needed:.0f} GiB on every node (predicted: {host.because}){loading}",
    ]


def _served(job: Job) -> str:
    """What a generator with GPUs of its own takes of them, and where it tells how it fares."""
    serving = [stage for stage in job.stages if stage.served_by]
    if not serving:
        split = max(stage.plan.layout.engine_tensor_parallel for stage in job.stages)
        shared = f"; {split} neighboring GPUs of a node share each copy of the weights with which vLLM writes answers"
        return shared if split > 1 else ""
    stage = serving[0]
    share = f"{stage.value('generator_share'):.0%} of {'its' if stage.served_by == 1 else 'their'} memory"
    log = f"`outputs/{server_log(stage)}`"
    return f"; on {stage.served_by} of them vLLM writes the answers, for which it reserves {share}; its log is {log}"


def _evaluation(job: Job) -> list[str]:
    """What evaluate.py needs of the GPUs, for the stage that needs most."""
    if job.last.on_cpu:
        return []
    most = max((stage.plan.needs.evaluation for stage in job.stages), key=lambda needs: needs.trained.bytes)
    beside = (most.batch_bytes, most.of_reserve_bytes, most.gpus)
    held = evaluation(most.trained.where, most.trained.bytes, *beside, "GPU")
    return [f"Evaluation: {held} (predicted)"]


def _merging(job: Job) -> list[str]:
    """What merge_adapter.py needs, which is run by hand."""
    if not job.last.adapts.merges:
        return []
    host, disk = job.last.plan.needs.merging_bytes / GIB, merged_gib(job.last)
    return [f"To merge the adapter: {host:.1f} GiB of host memory, and {disk:.1f} GiB more disk (predicted)"]


def _nodes(job: Job) -> list[str]:
    """What several nodes must have in common, or each for itself."""
    if job.nodes == 1:
        return []
    download = sum(stage.plan.needs.storage.hub_cache_bytes for stage in job.stages)
    downloads = f"downloads {gib(download)} and " * (download >= 0.05 * GIB)
    apart = f"otherwise each of them {downloads}tokenizes the rows itself"
    if any(stage.plan.layout.precomputes for stage in job.stages):
        apart = "otherwise the run stops after the reference has scored the rows, since one process writes for all"
    return [f"HF_HOME set to a folder that the {job.nodes} nodes share; {apart}"]


def _tracking(job: Job) -> list[str]:
    """Where the tracker takes its key from: the first rank alone reports."""
    if not any("wandb" in trackers(stage) for stage in job.stages):
        return []
    return ["A key of W&B in WANDB_API_KEY, or `wandb login`" + ", on the first node" * (job.nodes > 1)]


def _disk(job: Job) -> str:
    found = [stage.plan.needs.storage for stage in job.stages]
    tried = any(disk.trial_bytes for disk in found)
    sizes = {
        "models" if job.facts.others or job.facts.rewards.models else "model": sum(
            disk.hub_cache_bytes for disk in found
        ),
        "copies of the base model in the bundle": sum(disk.made_bytes for disk in found),
        "its weights packed": sum(disk.packed_bytes for disk in found),
        "prepared data": sum(disk.dataset_cache_bytes for disk in found),
        "trial save and results" if tried else "checkpoints and results": sum(disk.outputs_bytes for disk in found),
    }
    parts = ", ".join(f"{name} {gib(size)}" for name, size in sizes.items() if size >= 0.05 * GIB)
    total = gib(sum(disk.total_bytes for disk in found))
    hubs = "; the files of data sets of the Hub come on top" if any(map(_reads_hub, job.stages)) else ""
    return f"Disk: {total} (predicted: {parts}{hubs})" if parts else f"Disk: under 0.1 GiB (predicted{hubs})"


def _reads_hub(stage: StageJob) -> bool:
    return any(source.hub for source, _ in stage.sources())
