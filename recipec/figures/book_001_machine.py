"""Figures of rule book 001 on the machine around the GPUs: disk, network, host memory and cores."""

from __future__ import annotations

from recipec.axes.adaptations import FULL, LORA
from recipec.axes.strategies import DDP, FSDP, ZERO3
from recipec.estimate.memory import step_memory
from recipec.estimate.storage import HostMemory, Storage, host_memory, run_storage
from recipec.figures.figure import Ours, about, at_least, between, figure
from recipec.figures.trainings import GB, GPUS_PER_NODE, Training, speed
from recipec.rules.checkpoints import keep_checkpoints
from recipec.rules.loader import dataloader_workers

_STORAGE = "docs/rule-books/001.md, Storage requirements"
_NETWORKING = "docs/rule-books/001.md, Networking"
_HOST = "docs/rule-books/001.md, CPU/RAM guidelines"
_DISK = "computes the disk of the plan: checkpoints kept, result, base model, tokenized data"
_WAITS = "computes what a step waits for communication on the links at hand, and times every strategy"
_NEEDS = "computes the host memory of the plan, and warns with W0505 where a node has less"
_CARD = "a100-80gb"
_IB_LANE_GBPS = 50  # HDR, per lane: InfiniBand Trade Association, speed table; HDR100 has two lanes (read 2026-11)
_KEPT: int = keep_checkpoints().value


def _disk(job: Training) -> Storage:
    """Without the data, which the book counts apart."""
    return run_storage(job.architecture, job.layout, job.work, _KEPT, 0)


_FULL_70B = Training("70B", FULL, ZERO3, GPUS_PER_NODE)


@figure("FIG-116", "A 70B checkpoint in bf16: about 140 GB", about(140, "GB"), book=_STORAGE, does=_DISK)
def weights_on_disk() -> Ours:
    """2 bytes per parameter, as ZeRO-3 writes them. FSDP keeps fp32 weights and writes twice that."""
    fsdp = _disk(Training("70B", FULL, FSDP, GPUS_PER_NODE)).export_bytes
    return Ours(_disk(_FULL_70B).export_bytes / GB, f"final model of {_FULL_70B}; {fsdp / GB:.0f} GB with FSDP")


@figure("FIG-117", "A 70B checkpoint with optimizer states: about 560 GB", about(560, "GB"), book=_STORAGE, does=_DISK)
def checkpoint_on_disk() -> Ours:
    """560 GB are the two fp32 moments of Adam alone. To resume, bf16 weights and fp32 masters are needed too."""
    return Ours(_disk(_FULL_70B).checkpoint_bytes / GB, f"one checkpoint that can be resumed: {_FULL_70B}")


@figure(
    "FIG-118",
    "Checkpoint space: 3-5x model size",
    between(3, 5, "x"),
    book=_STORAGE,
    does=_DISK,
    rules=("CKPT-002",),
)
def checkpoint_space() -> Ours:
    """One checkpoint of full fine-tuning is 7 times the bf16 model, and several are kept; one of LoRA is next to
    nothing.
    """
    times = [_disk(job).checkpoints_bytes / (2 * job.architecture.params) for job in (_FULL_70B, Training("70B", LORA))]
    how = f"{_KEPT} checkpoints and the one being written, over the bf16 weights: {_FULL_70B}; {times[1]:.2f}x for LoRA"
    return Ours(times[0], how)


@figure("FIG-119", "Hub cache: 10-100 GB", between(10, 100, "GB"), book=_STORAGE, does=_DISK)
def hub_cache() -> Ours:
    """The published bf16 weights: it holds for 7B to 34B, not for 70B."""
    sizes = {size: _disk(Training(size, LORA)).hub_cache_bytes / GB for size in ("7B", "34B", "70B")}
    return Ours(sizes["70B"], f"70B; {sizes['7B']:.0f} GB for 7B, {sizes['34B']:.0f} GB for 34B")


def _efficiency(network_gbps: float) -> Ours:
    """Speed per GPU of two nodes over that of one."""
    one, two = (Training("7B", FULL, FSDP, nodes * GPUS_PER_NODE, micro_batch=4) for nodes in (1, 2))
    rates = [speed(job, _CARD, network_gbps).tokens_per_second_per_gpu for job in (two, one)]
    how = f"speed per {_CARD} of two nodes over one node, {network_gbps:g} Gbit/s per node: {two}"
    return Ours(100 * rates[0] / rates[1], how)


@figure("FIG-120", "25 Gbit/s Ethernet: 30-40 % efficiency", between(30, 40, "%"), book=_NETWORKING, does=_WAITS)
def ethernet_efficiency() -> Ours:
    """Sharded weights cross the network in every step. Larger batches hide more, faster cards less."""
    return _efficiency(25.0)


@figure("FIG-121", "200-400 Gbit/s InfiniBand: 80-90 %", between(80, 90, "%"), book=_NETWORKING, does=_WAITS)
def infiniband_efficiency() -> Ours:
    """On A100 cards with 8,192 tokens each the network hides behind the computation. Faster cards and shorter batches
    lose more; stragglers, which the estimate does not know, cost some everywhere.
    """
    return _efficiency(200.0)


@figure(
    "FIG-122",
    "HDR100 has 200 Gbit/s or more",
    at_least(200, "Gbit/s"),
    book=_NETWORKING,
    does="takes the rate from hardware.network_gbps and no generation's name",
)
def hdr100() -> Ours:
    """HDR100 is half of an HDR port: two of its four lanes."""
    return Ours(2 * _IB_LANE_GBPS, f"two lanes of {_IB_LANE_GBPS} Gbit/s (InfiniBand Trade Association)")


def _host(job: Training) -> HostMemory:
    step = step_memory(job.architecture, job.layout, job.work)
    return host_memory(job.architecture, job.layout, job.work, GPUS_PER_NODE, step)


@figure("FIG-123", "host memory: at least 64 GB per GPU", about(64, "GB"), book=_HOST, does=_NEEDS)
def host_memory_least() -> Ours:
    """Without offload it is one process per GPU and the weights while they are loaded: far less is enough."""
    job, large = Training("7B", LORA, DDP, GPUS_PER_NODE), _FULL_70B
    return Ours(_host(job).per_gpu_bytes / GB, f"{job}; {_host(large).per_gpu_bytes / GB:.0f} GB per GPU for {large}")


@figure("FIG-124", "host memory with ZeRO-3 offload: 128 GB per GPU", about(128, "GB"), book=_HOST, does=_NEEDS)
def host_memory_offload() -> Ours:
    """Offload moves weights, masters, states and gradients, with DeepSpeed's pinned copies: it follows from the model.
    A 7B model needs less than 128 GB per GPU.
    """
    large, small = (Training(size, FULL, ZERO3, GPUS_PER_NODE, offload="cpu") for size in ("70B", "7B"))
    return Ours(_host(large).per_gpu_bytes / GB, f"{large}; {_host(small).per_gpu_bytes / GB:.0f} GB per GPU for 7B")


@figure(
    "FIG-125",
    "8-16 CPU cores per GPU",
    between(8, 16, "cores"),
    book=_HOST,
    does="starts 8 loader workers per GPU where there are cores for them, 4 where nothing is known",
    rules=("LOAD-001",),
)
def cores_per_gpu() -> Ours:
    """Rows are tokenised before training, so more than 8 workers would wait. Cleaning the data uses all cores."""
    return Ours(dataloader_workers(16).value, "loader workers that rule LOAD-001 starts on 16 cores per GPU")
