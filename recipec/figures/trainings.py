"""The trainings that the figures speak of, and what the estimates say of them.

The books name sizes only. A size is the Llama 2 or Code Llama model of that size, whose shape the books' own figures
fit; a step is one sequence of 2,048 tokens with activations recomputed, unless a figure says otherwise.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct

from recipec.axes import Adaptation, Strategy
from recipec.axes.adaptations import FULL, LORA
from recipec.axes.strategies import ON_DEVICE, SINGLE
from recipec.catalog.architecture import Architecture
from recipec.catalog.gpus import Gpu
from recipec.catalog.gpus import gpu as gpu_named
from recipec.catalog.machines import machine
from recipec.catalog.models import model
from recipec.estimate.device import ASSUMED
from recipec.estimate.links import link_of
from recipec.estimate.memory import MemoryEstimate, step_memory
from recipec.estimate.step import step_of
from recipec.estimate.throughput import TimeEstimate, step_time
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Layout, Mesh

GB = 1e9
RANK = 16  # the books' own
SEQ_LEN_TOKENS = 2048
GPUS_PER_NODE = 8
MODELS = {
    "7B": "meta-llama/Llama-2-7b-hf",
    "8B": "meta-llama/Llama-3.1-8B",
    "13B": "meta-llama/Llama-2-13b-hf",
    "34B": "codellama/CodeLlama-34b-hf",
    "70B": "meta-llama/Llama-2-70b-hf",
}


class Training(Struct, frozen=True):
    """One training that a book speaks of."""

    size: str  # a key of MODELS
    way: Adaptation
    strategy: Strategy = SINGLE
    ranks: int = 1
    micro_batch: int = 1
    checkpointing: bool = True
    precision: str = "bf16"
    offload: str = ON_DEVICE
    seq_len_tokens: int = SEQ_LEN_TOKENS

    @property
    def architecture(self) -> Architecture:
        return architecture(self.size)

    @property
    def work(self) -> Workload:
        return Workload(seq_len_tokens=self.seq_len_tokens, lora=None if self.way.trains_all else LoraShape(RANK))

    @property
    def layout(self) -> Layout:
        return Layout(
            adaptation=self.way.name,
            precision=self.precision,
            strategy=self.strategy.name,
            mesh=Mesh(replicate=self.ranks) if self.strategy.replicates else Mesh(shard=self.ranks),
            offload=self.offload,
            micro_batch=self.micro_batch,
            accumulation=1,
            checkpointing=self.checkpointing,
            attention="sdpa",
            packing=False,
            optimizer="adamw",
        )

    def __str__(self) -> str:
        name = MODELS[self.size].rpartition("/")[2]
        way = self.way.title + ("" if self.way.trains_all else f" of rank {RANK} on all linear layers")
        where = f", {self.strategy.name} on {self.ranks} GPUs" if self.ranks > 1 else ""
        offload = f", offload to {self.offload}" if self.offload != ON_DEVICE else ""
        kept = "recomputed" if self.checkpointing else "kept"
        step = f"{self.micro_batch} x {self.seq_len_tokens:,} tokens per GPU, activations {kept}"
        return f"{name}, {way}, {self.precision} with AdamW{where}{offload}, {step}"


def architecture(size: str) -> Architecture:
    """The shape of the model that stands for a size."""
    found = model(MODELS[size])
    assert found is not None
    return found.architecture


def gpu(name: str) -> Gpu:
    """A GPU of the catalog."""
    found = gpu_named(name)
    assert found is not None
    return found


def memory(job: Training) -> MemoryEstimate:
    """Memory of a step on one GPU."""
    return step_memory(job.architecture, job.layout, job.work)


def card_gb(job: Training) -> float:
    """What a card must have for the job, in GB: the peak, the allocator's fragments, the driver."""
    return memory(job).peak_device_bytes / GB


def states_gb(job: Training) -> float:
    """Weights, gradients, master copies and optimizer states of one GPU, in GB."""
    states = step_of(job.architecture, job.layout, job.work).fixed.states
    return sum((states.terms | {"gradients": states.gradients}).values()) / GB


def sharding_saves(strategy: Strategy, ranks: int) -> float:
    """How many times less of those each GPU holds in full fine-tuning of 7B."""
    return states_gb(Training("7B", FULL)) / states_gb(Training("7B", FULL, strategy, ranks))


def activations_gb(job: Training) -> float:
    """What waits for the backward pass, in GB; with recomputation also the one layer that is recomputed."""
    step = step_of(job.architecture, job.layout, job.work)
    each, layers = step.fixed.layers, job.architecture.num_layers
    per_token = layers * each.checkpoint + each.saved if job.checkpointing else layers * each.saved
    return step.tokens * per_token / GB


def adapter_percent(size: str) -> float:
    """Share of LoRA's parameters in those of the model, in percent."""
    job = Training(size, LORA)
    return 100 * step_of(job.architecture, job.layout, job.work).fixed.sizes.adapters / job.architecture.params


def speed(job: Training, card: str, network_gbps: float | None = None) -> TimeEstimate:
    """Time of a step on nodes of eight cards, with their usual network unless one is given."""
    network = network_gbps or machine(gpu(card).name, GPUS_PER_NODE).network_gbps or inf
    link = link_of(gpu(card), gpus_per_node=GPUS_PER_NODE, network_gbps=network)
    return step_time(job.architecture, job.layout, job.work, gpu(card), link)


def fewest_gpus(size: str, way: Adaptation, strategy: Strategy, card: str) -> int:
    """The smallest power of two of cards on which a job fits under a strategy that shares its memory out."""
    counts = [2**power for power in range(1, 9)]
    return next(ranks for ranks in counts if _fits(Training(size, way, strategy, ranks), card))


def _fits(job: Training, card: str) -> bool:
    return memory(job).peak_allocated_bytes <= ASSUMED.allocatable_bytes(gpu(card).memory_gib, job.ranks)
