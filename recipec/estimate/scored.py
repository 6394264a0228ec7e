"""Which plans are like published runs that the estimates were scored on; of others no error band is claimed.

What benchmarks/data has, by card, adaptation and strategy: dense models, a single pass over supervised or plain text,
all weights or LoRA, nothing in host memory, no FP8 and no penalty on weights, one GPU or FSDP1 on two and four. Memory
does not depend on the kind of card, speed does: 124 of 128 timed runs were on A100s, and the speed of adapters under
FSDP was missed by half.
"""

from __future__ import annotations

from recipec.axes.adaptations import MATRICES
from recipec.catalog.architecture import Architecture
from recipec.estimate.workload import Workload
from recipec.layout import Layout

TIMED_CARDS = ("a100-80gb", "a100-40gb", "a100-80gb-pcie", "a800-80gb")
MOST_GPUS = 4
SCORED_PRECISIONS = ("bf16", "fp16")


def memory_scored(architecture: Architecture, layout: Layout, work: Workload) -> bool:
    """Whether allocated memory of runs of this kind was compared with the formula's."""
    return _described(architecture, layout, work) and (layout.spreads.one_rank or layout.fsdp)


def time_scored(architecture: Architecture, layout: Layout, work: Workload, card: str) -> bool:
    """Whether the speed of runs of this kind, on cards of this class, was compared with the formula's."""
    whole = layout.spreads.one_rank or (layout.fsdp and layout.adapts.trains_all)
    return _described(architecture, layout, work) and whole and card in TIMED_CARDS


def _described(architecture: Architecture, layout: Layout, work: Workload) -> bool:
    """A usual step within one node, of a model that is whole or sharded over all ranks."""
    mesh = layout.mesh
    near = mesh.world_size <= MOST_GPUS and mesh.ranks_per_layer == 1 and not layout.spreads.groups
    return near and usual_step(architecture, layout, work)


def usual_step(architecture: Architecture, layout: Layout, work: Workload) -> bool:
    """Whether the rows pass a dense model once and all is on the device, however it is spread."""
    dense = (
        architecture.moe is None and work.method.single_pass and not work.written_tokens and layout.optimizer == "adamw"
    )
    learned = layout.adapts.trains_all or layout.adapts.trains == MATRICES
    typed = layout.precision in SCORED_PRECISIONS and not work.fp8 and not work.elastic
    return dense and learned and typed and layout.on_device
