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
    masks: int  # boolean, one for each kind of layer, shared by its layers


def scores_of(architecture: Architecture, layout: Layout, work: Work, sequences: int, path: CodePath) -> Scores:
    """The bytes of `sequences` sequences, of which context parallelism leaves each rank a part of the rows."""
    kinds = list(architecture.layers_by_window)
    saved = [_saved(architecture, window, layout, work, sequences, path) for window in kinds]
    masks = sum(masked(window, layout, work, sequences) for window in kinds)
    windowed = _windowed_share(architecture, layout.recompute_interval)
    mask = sequences * work.seq_len_tokens // layout.mesh.context * work.seq_len_tokens
    return Scores(max(saved), windowed * saved[0] + (1 - windowed) * saved[-1], mask * masks)


@lru_cache(maxsize=1024)
def _windowed_share(architecture: Architecture, recompute_interval: int) -> float:
    """Of the layers that keep everything, those that attend within a window."""
    kept = [layer for layer in range(architecture.num_layers) if not recompute_interval or layer % recompute_interval]
    return sum(architecture.windowed(layer) for layer in kept) / max(1, len(kept))


def masked(window: int | None, layout: Layout, work: Work, sequences: int) -> bool:
    """Whether attention gets a mask: rows of different length, or a window that the sequence is longer than.

    Context parallelism drops the mask (accelerate 1.15): rows are padded behind, where causal attention never looks.
    """
    exceeded = window is not None and window <= work.seq_len_tokens
    rows = layout.attention == "sdpa" and not layout.packing and layout.mesh.context == 1
    return rows and ((work.padded and sequences > 1) or exceeded)


def _saved(
    architecture: Architecture, window: int | None, layout: Layout, work: Work, sequences: int, path: CodePath
) -> int:
    """What a mask or unfused attention saves on top: repeated keys and values, and squares of the length.

    Behind a fused projection queries are concatenated head by head, so the flash kernel's output has to be copied.
    """
    tokens = sequences * work.seq_len_tokens
    square = tokens * work.seq_len_tokens
    if layout.attention == "eager":  # the fp32 softmax and its compute-type copy, and Gemma 2's capped scores
        capped = architecture.model_type == "gemma2"
        return (4 + path.compute * (1 + capped)) * architecture.num_heads * square
    if not masked(window, layout, work, sequences):
        other = path.adapter_copy or (work.lora is not None and work.lora.dropout)  # the adapter keeps another copy
        copied = len(architecture.modules.qkv) == 1 and not other
        return path.compute * architecture.query_size * tokens * copied
    copies = architecture.num_kv_heads > 1  # one head is repeated as a view
    repeated = 2 * path.compute * (architecture.query_size - architecture.kv_size) * copies
    return repeated * tokens + path.compute * square
