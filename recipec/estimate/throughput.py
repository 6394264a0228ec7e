"""Time of one optimizer step: compute, exposed communication, offload traffic, optimizer.

More GPUs of one kind at a fixed global batch never predict a slower step, except for what the strategy then has to
communicate: the step from one GPU to several pays the ring's (N-1)/N, and leaving the node pays its network.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from recipec.axes.models import TEACHER
from recipec.catalog.architecture import Architecture
from recipec.estimate.calibration import calibrated_seconds, calibration_of
from recipec.estimate.codepath import CodePath
from recipec.estimate.flops import StepFlops, step_flops
from recipec.estimate.generation import generation_seconds
from recipec.estimate.kernels import Card, memory_rate, peak_flops, teacher_seconds
from recipec.estimate.links import Link
from recipec.estimate.memory import step_memory
from recipec.estimate.nearest import nearest
from recipec.estimate.optimizers import FP32_BYTES
from recipec.estimate.overhead import overhead_of
from recipec.estimate.scored import time_band, usual_step
from recipec.estimate.step import Step, step_of
from recipec.estimate.traffic import communication_seconds
from recipec.estimate.workload import Workload
from recipec.layout import Layout

# AdamW on the host, seconds for a parameter: 3.5e-9 on one core (torch, Megatron fork #188), shared by the cores of a
# node down to what its memory allows. Published on whole servers: 0.55e-9 (Qwen-72B on 4 nodes, DeepSpeed#6834), 0.6e-9
# (Llama-2-7B, ZenFlow post), at most 0.8e-9 (DeepSpeed PR#7474). Read 2026-11. The last where the cores are not known.
HOST_ADAM_CORE_SECONDS, HOST_ADAM_LEAST_SECONDS, HOST_ADAM_USUAL_SECONDS = 3.5e-9, 0.5e-9, 0.8e-9
FOREACH_PASSES = 3.5  # the multi-tensor AdamW passes over memory once per operation
# Adafactor's operations on one parameter move 24 fp32 values of each weight, where one pass would move 3
# (transformers 5.23 optimization.py, counted); the multi-tensor SGD makes one more pass for a decay.
ADAFACTOR_PASSES, DECAYING_SGD_PASSES = 8.0, 2.0


class TimeEstimate(Struct, frozen=True):
    """One optimizer step on all ranks."""

    seconds_per_step: float
    tokens_per_second_per_gpu: float  # of the workload's rows; a plan's are of the usual length, unpadded
    terms: Mapping[str, float]  # seconds: compute, a teacher's part, generation, communication, offload, optimizer
    bound_by: str
    mfu: float  # model operations (recomputation not counted) over the card's dense peak
    # Measured over predicted time of published runs of this kind, None where none was scored. It stays where rates are
    # measured: no run that was planned with those is recorded yet (benchmarks/probe.py).
    band: tuple[float, float] | None
    band_source: str
    slower: str  # how much longer runs took that are like this one, though none of this kind was scored; or ""

    @property
    def scored(self) -> bool:
        """Whether published runs of this kind were compared with what is predicted for them."""
        return self.band is not None


# Mixtral-8x7B, LoRA, two A100s: 1.26 and 1.38 times (fms-acceleration, benchmarks/data/published_throughput.csv).
# Qwen3-30B-A3B, all weights, transformers 5 on eight H100s: 2.3 times where its batch, which is not stated, is one row
# (3,075 tokens/s per GPU, a post of Hugging Face and NVIDIA of 2026-06-24 as cited by theaifeed.com; read 2026-11).
_MIXTURES = "the few runs of mixtures of experts that are known took 1.3 to 2.3 times as long as estimated"


def step_time(architecture: Architecture, layout: Layout, work: Workload, gpu: Card, link: Link) -> TimeEstimate:
    """Predict the seconds of one optimizer step of `layout`."""
    step, flops, micro = _micro_step(architecture, layout, work, gpu)
    taught = _taught(layout, step, flops, gpu) if work.teacher else {}
    parts = (architecture, layout, work, step, gpu, link)
    written = {"generation": generation_seconds(*parts)} if work.written_tokens else {}
    terms = {
        "compute": micro * layout.accumulation - sum(taught.values()),
        **taught,
        **written,
        "communication": communication_seconds(architecture, layout, step, link, micro),
        "offload": (_paging(architecture, layout, work, step, gpu, link) or _offload(layout, step, link))
        + _moved_activations(layout, step, link),
        "optimizer": _optimizer(work, layout, step, gpu),
    }
    seconds, known = sum(terms.values()), time_band(architecture, layout, work, gpu.name, link)
    band, source = known or (None, "")
    tokens = step.tokens * layout.accumulation / layout.mesh.tensor
    useful = flops.model * tokens
    return TimeEstimate(
        seconds_per_step=seconds,
        tokens_per_second_per_gpu=tokens / seconds,
        terms=terms,
        bound_by=max(terms, key=terms.__getitem__),
        mfu=useful / seconds / peak_flops(gpu, layout.precision),
        band=band,
        band_source=source,
        slower="" if band else _known(architecture, layout, work, gpu),
    )


def _known(architecture: Architecture, layout: Layout, work: Workload, gpu: Card) -> str:
    """What is known of runs that are like a plan whose kind was not scored."""
    if architecture.moe is not None and not architecture.moe.all_run:
        return _MIXTURES
    if not usual_step(architecture, layout, work):
        return ""
    return nearest(gpu.capability, layout.precision, layout.adaptation, layout.strategy)


@lru_cache(maxsize=8192)  # what a plan compares with more steps, another network or fewer nodes has the same ones
def _micro_step(architecture: Architecture, layout: Layout, work: Workload, gpu: Card) -> tuple[Step, StepFlops, float]:
    """A micro step, its operations and its seconds on the GPU, whatever the links are."""
    step = step_of(architecture, layout, work)
    flops = step_flops(architecture, layout, work, step.fixed)
    return step, flops, calibrated_seconds(architecture, layout, work, step, flops, gpu)


def _taught(layout: Layout, step: Step, flops: StepFlops, gpu: Card) -> dict[str, float]:
    """A teacher's part of the computation, which holds the law's corrections like the rest."""
    each = teacher_seconds(layout, step, flops, gpu) * calibration_of(gpu, layout.precision).kernel_factor
    return {TEACHER: each * layout.accumulation}


def _offload(layout: Layout, step: Step, link: Link) -> float:
    """Gradients to the host, the host's AdamW, weights back; with offloaded weights each pass over them instead."""
    sizes, path = step.fixed.sizes, step.fixed.path
    if not layout.offloads:
        return 0.0
    shard = layout.mesh.shard * layout.mesh.context
    ranks = min(layout.mesh.world_size, link.gpus_per_node)
    adam = sizes.trainable / shard * ranks * _host_adam_seconds(link.host_cores)
    copied = _copied_gradients(layout, path) * sizes.trainable
    if layout.hosts_weights:
        passes = 2 + layout.recomputed_share(step.depth.layers)
        copied += passes * layout.accumulation * path.compute * sizes.params
    else:
        copied += path.compute * sizes.trainable
    return adam + copied / shard / (link.copied_gb_s * 1e9)


def _copied_gradients(layout: Layout, path: CodePath) -> float:
    """Bytes of one gradient that cross the bus in a step, both ways together (DeepSpeed 0.19).

    The last micro step brings the sum to the host in fp32. The sums before it wait there in the compute type, and the
    GPU, which adds to them, reads and writes them: under ZeRO-3 in every micro step (stage3.py, `partition_grads`),
    under ZeRO-2 only where several are added up, and it does not read the first (stage_1_and_2.py,
    `copy_grads_in_partition`). Under ZeRO-1 they wait on the GPU (run with two and four micro steps, 2026-11-30).
    """
    if layout.spreads.shards_weights:
        copies = 2 * layout.accumulation
    else:
        copies = 2 * layout.accumulation - 1 if layout.spreads.shards_gradients and layout.accumulation > 1 else 0
    return copies * path.gradient + FP32_BYTES


def _host_adam_seconds(cores: int | None) -> float:
    """Of one parameter, on all cores of a node: the launch scripts give each rank its part of them."""
    if cores is None:
        return HOST_ADAM_USUAL_SECONDS
    return max(HOST_ADAM_LEAST_SECONDS, HOST_ADAM_CORE_SECONDS / cores)


def _moved_activations(layout: Layout, step: Step, link: Link) -> float:
    """Inputs of recomputed layers go to the host and come back, on the stream that computes (transformers 5.23)."""
    if not step.depth.offloads:
        return 0.0
    moved = step.depth.recomputed * step.tokens * step.fixed.layers.checkpoint
    return 2 * moved * layout.accumulation / (link.copied_gb_s * 1e9)


def _paging(architecture: Architecture, layout: Layout, work: Workload, step: Step, gpu: Card, link: Link) -> float:
    """Paged states that find no room beside the step's peak go to the host in every step and come back."""
    if not step.fixed.path.paged_optimizer:
        return 0.0
    states = step.fixed.path.optimizer * step.fixed.sizes.trainable / step.fixed.path.state_shards
    room = (
        overhead_of(gpu).allocatable_bytes(gpu.memory_gib, layout.mesh.world_size)
        - step_memory(architecture, layout, work).peak_allocated_bytes
    )
    return 2 * min(states, max(states - room, 0.0)) / (link.copied_gb_s * 1e9)


def _optimizer(work: Workload, layout: Layout, step: Step, gpu: Card) -> float:
    """On the device: weights, gradient and states are read, weights and states written back, in one or more passes."""
    if layout.offloads:
        return 0.0
    path = step.fixed.path
    per_param = 2 * max(path.trained, path.master) + path.gradient + 2 * path.optimizer
    moved = step.fixed.sizes.trainable / path.state_shards * per_param
    return moved * _passes(work, layout) / _optimizer_rate(layout, gpu)


def _optimizer_rate(layout: Layout, gpu: Card) -> float:
    """Bytes in a second: of the fused AdamW as it was measured, else as fast as memory."""
    measured = gpu.measured.optimizer_gb_s if gpu.measured and layout.optimizer == "adamw" else None
    return measured * 1e9 if measured else memory_rate(gpu)


def _passes(work: Workload, layout: Layout) -> float:
    if layout.optimizer == "adafactor":
        return ADAFACTOR_PASSES
    if layout.optimizer == "sgd":
        return DECAYING_SGD_PASSES if work.decays else 1.0
    return FOREACH_PASSES if work.foreach else 1.0
