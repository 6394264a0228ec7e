"""What attention holds beyond its inputs and outputs: masks, and what a mask or unfused attention saves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.work import Work
from recipec.layout import Layout


@dataclass(frozen=True, slots=True)
class Scores:
    """Bytes per rank. Layers with a window may hold more than those that attend to the whole sequence."""

    layer: int  # of the layer that holds most
    kept: float  # the mean of the layers that keep everything for the backward pass
    masks: int  # one for each kind of layer, shared by its layers
    forward: int  # while a layer that saves nothing runs its attention
    backward: int  # while a layer runs its attention backward, on top of what it saved


def scores_of(architecture: Architecture, layout: Layout, work: Work, path: CodePath) -> Scores:
    """The bytes of a micro batch; context parallelism leaves each rank a part of every row."""
    kinds = list(architecture.layers_by_window)
    saved = [_saved(architecture, window, layout, work, path) for window in kinds]
    windowed = _windowed_share(architecture, layout.recompute_interval)
    masks = sum(_mask(window, layout, work, path) for window in kinds)
    kept = windowed * saved[0] + (1 - windowed) * saved[-1]
    if layout.attention != "eager":
        return Scores(max(saved), kept, masks, forward=max(saved) + masks, backward=0)
    _, forward, backward = _eager(architecture, path)
    numbers = architecture.num_heads * _pairs(layout, work)
    return Scores(max(saved), kept, masks, forward * numbers, backward * numbers)


def _eager(architecture: Architecture, path: CodePath) -> tuple[int, int, int]:
    """Bytes per pair and head that eager attention saves, needs forward, and adds to what it saved backward.

    Simulated on Llama 3.2, Gemma 2 and gpt-oss, transformers 5.23: the softmax runs in fp32 and is kept with its copy
    in the compute type, Gemma 2's with the capped scores; with sinks it runs in the sinks' type.
    """
    compute = path.compute
    if architecture.attention_sinks and path.residual == compute:
        return compute, 3 * compute, 2 * compute
    capped = architecture.model_type == "gemma2"
    return 4 + compute * (1 + capped), 8 + compute, 4 + compute


@lru_cache(maxsize=1024)
def _windowed_share(architecture: Architecture, recompute_interval: int) -> float:
    """Of the layers that keep everything, those that attend within a window."""
    kept = [layer for layer in range(architecture.num_layers) if not recompute_interval or layer % recompute_interval]
    return sum(architecture.windowed(layer) for layer in kept) / max(1, len(kept))


def one_row(layout: Layout, work: Work) -> bool:
    """Whether a micro batch is one row: so TRL 1.16 hands packed examples over; packed text keeps its rows."""
    return layout.packing and work.objective == "sft"


def row_tokens(layout: Layout, work: Work) -> int:
    """Tokens of a row as attention sees it."""
    return work.seq_len_tokens * (layout.micro_batch if one_row(layout, work) else 1)


def masked(window: int | None, layout: Layout, work: Work) -> bool:
    """Whether SDPA gets a mask: packed examples in a row, rows of different length, or more tokens than the window.

    Context parallelism drops the mask (accelerate 1.15): rows are padded behind, where causal attention never looks.
    """
    if layout.attention != "sdpa" or layout.mesh.context > 1:
        return False
    several = layout.micro_batch * work.sequences_per_example > 1
    told_apart = one_row(layout, work) or (work.padded and several and not layout.packing)
    return told_apart or (window is not None and window <= row_tokens(layout, work))


def _mask(window: int | None, layout: Layout, work: Work, path: CodePath) -> int:
    """A boolean for each pair of a row; eager attention always adds numbers of the compute type instead."""
    pairs = _pairs(layout, work)
    return path.compute * pairs if layout.attention == "eager" else pairs * masked(window, layout, work)


def _saved(architecture: Architecture, window: int | None, layout: Layout, work: Work, path: CodePath) -> int:
    """What a mask or unfused attention saves on top: repeated keys and values, and a number for each pair of a row.

    Behind a fused projection queries are concatenated head by head, so the flash kernel's output has to be copied.
    """
    tokens, pairs = _tokens(layout, work), _pairs(layout, work)
    if layout.attention == "eager":
        return _eager(architecture, path)[0] * architecture.num_heads * pairs
    if not masked(window, layout, work):
        other = path.adapter_copy or (work.lora is not None and work.lora.dropout)  # the adapter keeps another copy
        copied = len(architecture.modules.qkv) == 1 and not other
        return path.compute * architecture.query_size * tokens * copied
    copies = architecture.num_kv_heads > 1  # one head is repeated as a view
    repeated = 2 * path.compute * (architecture.query_size - architecture.kv_size) * copies
    return repeated * tokens + path.compute * pairs


def _pairs(layout: Layout, work: Work) -> int:
    """Queries times the keys of their row."""
    return _tokens(layout, work) * row_tokens(layout, work)


def _tokens(layout: Layout, work: Work) -> int:
    return layout.micro_batch * work.sequences_per_example * work.seq_len_tokens
