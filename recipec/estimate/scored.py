"""Which plans are like published runs that the estimates were scored on; of others no error band is claimed.

What benchmarks/data has, by card, adaptation and strategy: dense models, a single pass over supervised or plain text,
all weights or LoRA, nothing in host memory, no FP8 and no penalty on weights. Memory was compared on one GPU and under
FSDP1 on two and four, and does not depend on the kind of card. Speed does, and was compared on more GPUs: nearest.toml
has the cards, GPUs and networks of the timed runs.
"""

from __future__ import annotations

from recipec.axes.adaptations import MATRICES
from recipec.catalog.architecture import Architecture
from recipec.estimate.links import Link
from recipec.estimate.nearest import band_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout

MOST_GPUS = 4  # whose memory was compared
SCORED_PRECISIONS = ("bf16", "fp16")


def memory_scored(architecture: Architecture, layout: Layout, work: Workload) -> bool:
    """Whether allocated memory of runs of this kind was compared with the formula's."""
    near = layout.mesh.world_size <= MOST_GPUS and (layout.spreads.one_rank or layout.fsdp)
    return near and whole_layers(layout) and usual_step(architecture, layout, work)


def time_band(
    architecture: Architecture, layout: Layout, work: Workload, card: str, link: Link
) -> tuple[tuple[float, float], str] | None:
    """Measured over predicted time of the runs that were scored, where a plan is of their kind; and which they are."""
    usual = whole_layers(layout) and usual_step(architecture, layout, work)
    return band_of(card, layout, link) if usual else None


def whole_layers(layout: Layout) -> bool:
    """Whether the model is whole or sharded over all ranks."""
    return layout.mesh.ranks_per_layer == 1 and not layout.spreads.groups


def usual_step(architecture: Architecture, layout: Layout, work: Workload) -> bool:
    """Whether the rows pass a dense model once and all is on the device, however it is spread."""
    dense = (
        architecture.moe is None and work.method.single_pass and not work.written_tokens and layout.optimizer == "adamw"
    )
    learned = layout.adapts.trains_all or layout.adapts.trains == MATRICES
    typed = layout.precision in SCORED_PRECISIONS and not work.fp8 and not work.elastic
    return dense and learned and typed and layout.on_device
