"""The other model of a distilling method, as a rank holds it.

The trainer that a bundle brings reads it straight onto the device of every rank, whole. Only under ZeRO-3, where
transformers shards whatever is loaded, DeepSpeed's engine runs its decoder (TRL 1.16 `prepare_deepspeed`).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.strategies import DEEPSPEED
from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import Activations, kinds_of
from recipec.estimate.codepath import CodePath
from recipec.estimate.sharding import Gathered, gathered_by_zero3
from recipec.estimate.sizes import sizes
from recipec.layout import Layout


class Teacher(Struct, frozen=True):
    """A frozen model in the compute type."""

    architecture: Architecture
    path: CodePath
    kinds: tuple[Activations, ...]  # of every kind of layer, in the order of `Architecture.kinds`
    resident: float  # bytes of its weights on a rank
    gathered_params: int  # by every pass over it; 0 where it is whole
    gathered_head: float  # bytes of its matrix of the vocabulary while the loss runs; 0 where it is whole
    buffers: Gathered


def teacher_of(architecture: Architecture | None, layout: Layout, path: CodePath) -> Teacher | None:
    """The teacher of a run whose policy takes the code path `path`."""
    if architecture is None:
        return None
    frozen = replace(path, residual=path.compute, quantized=0.0, adapter_copy=0, saves_frozen_inputs=0)
    sharded = layout.spreads.engine == DEEPSPEED and layout.spreads.shards_weights
    live = 0.0
    if sharded:
        count = sizes(architecture, None, to_vocabulary=True)
        live = gathered_by_zero3(architecture.hidden_size, path.compute * count.layer, count, path)
    return Teacher(
        architecture=architecture,
        path=frozen,
        kinds=kinds_of(architecture, None, frozen),
        resident=path.compute * architecture.params / (path.weight_shards if sharded else 1),
        gathered_params=architecture.params if sharded else 0,
        gathered_head=path.compute * architecture.vocab_size * architecture.hidden_size if sharded else 0.0,
        buffers=Gathered(live, live, live),
    )
