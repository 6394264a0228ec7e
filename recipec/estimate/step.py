"""One step of one rank, taken apart into what the stages are summed from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import Activations, activations
from recipec.estimate.codepath import CodePath, code_path
from recipec.estimate.head import Head, head_bytes
from recipec.estimate.sharding import Buffers, buffers
from recipec.estimate.sizes import Sizes, sizes
from recipec.estimate.states import States, states
from recipec.estimate.work import Work
from recipec.layout import Layout, Mesh


@dataclass(frozen=True, slots=True)
class Fixed:
    """What does not depend on the batch: shared by all micro batches of a search."""

    sizes: Sizes
    path: CodePath
    layers: Activations
    states: States
    buffers: Buffers


@dataclass(frozen=True, slots=True)
class Step:
    """A `Fixed` with a batch on it."""

    fixed: Fixed
    tokens: int  # per rank and micro step, both answers of a pair counted
    head: Head
    attention: int  # bytes per layer beyond what is linear in tokens
    accumulates: bool
    reference: bool  # a reference scores each batch


def step_of(architecture: Architecture, layout: Layout, work: Work) -> Step:
    """Resolve everything that the stages of a step need."""
    choices = (layout.adaptation, layout.quantization, layout.precision, layout.strategy, layout.offload)
    fixed = _fixed(architecture, work, layout.mesh, layout.optimizer, *choices)
    sequences = layout.micro_batch * work.sequences_per_example
    tokens = sequences * work.seq_len_tokens
    return Step(
        fixed=fixed,
        tokens=tokens,
        head=head_bytes(work, tokens, architecture, fixed.sizes, fixed.path),
        attention=_attention(architecture, layout, work, sequences, fixed.path),
        accumulates=layout.accumulation > 1,
        reference=work.reference != "none",
    )


@lru_cache(maxsize=8192)
def _fixed(architecture: Architecture, work: Work, mesh: Mesh, optimizer: str, *choices: str) -> Fixed:
    adaptation, quantization, precision, strategy, offload = choices
    layout = Layout(adaptation, quantization, precision, strategy, mesh, offload, 1, 1, True, "sdpa", False, optimizer)
    path, count = code_path(layout, work), sizes(architecture, work.lora)
    return Fixed(
        sizes=count,
        path=path,
        layers=activations(architecture, work.lora, path),
        states=states(layout, work, count, path),
        buffers=buffers(layout, work, architecture.hidden_size, count, path),
    )


def _attention(architecture: Architecture, layout: Layout, work: Work, sequences: int, path: CodePath) -> int:
    """What a padding mask or unfused attention saves on top: repeated keys and values, and squares of the length."""
    square = sequences * work.seq_len_tokens**2
    windowed = (architecture.sliding_window or math.inf) <= work.seq_len_tokens
    if layout.attention == "eager":  # the fp32 softmax and its compute-type copy
        return (4 + path.compute) * architecture.num_heads * square
    masked = (work.padded and sequences > 1) or windowed  # a row alone has nothing to be padded to
    if not masked or layout.attention != "sdpa":
        return 0
    repeated = 2 * path.compute * (architecture.query_size - architecture.kv_size)
    return repeated * sequences * work.seq_len_tokens + path.compute * square
