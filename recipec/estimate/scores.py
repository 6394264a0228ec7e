"""What attention holds beyond its inputs and outputs: masks, and what a mask or unfused attention saves."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.attention import BOUNDARIES
from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.modules import keeps_output
from recipec.estimate.workload import Workload
from recipec.layout import Layout


class Scores(Struct, frozen=True):
    """Bytes per rank. Layers with a window may hold other bytes than those that attend to the whole sequence; those
    without attention hold nothing of this."""

    of_kinds: tuple[int, ...]  # of a layer of each kind: of those the one that holds most
    kept: float  # the mean of the layers that keep everything for the backward pass
    masks: int  # one for each kind of layer, shared by its layers
    cached: int  # keys and values of all layers, which a cache holds until the loss is there: where it holds a prefix
    waiting: int  # of these, those that the backward pass does not hold anyway
    forward: int  # while a layer that saves nothing runs its attention
    backward: int  # while a layer runs its attention backward, on top of what it saved


def scores_of(architecture: Architecture, layout: Layout, work: Workload, path: CodePath, sequences: int) -> Scores:
    """The bytes of a pass over `sequences`, those of a micro batch."""
    tokens = sequences * work.seq_len_tokens
    prefix = prefix_tokens(work)
    pairs = tokens * (row_tokens(layout, work) + prefix)  # queries times the keys of their row
    attending = _attending_share(architecture, layout.recompute_interval)
    cached = _cached(architecture, path, tokens + sequences * prefix) if prefix else 0
    waiting = cached if 1 < architecture.num_kv_heads < architecture.num_heads else 0
    if layout.attends.keeps_scores:
        return replace(_eager(architecture, path, pairs, attending), cached=cached, waiting=waiting)
    kinds = {window: masked(window, layout, work, sequences) for window in architecture.layers_by_window}
    saved = [
        _with_mask(shape, path, tokens, sequences * prefix, pairs)
        if kinds[window]
        else _without_mask(shape, work, path, tokens)
        for window, shape in ((window, architecture.attending(window)) for window in kinds)
    ]
    kept = attending * saved[0]
    if len(kinds) > 1:  # of models without a mixer
        windowed = _windowed_share(architecture, layout.recompute_interval)
        kept = windowed * saved[0] + (1 - windowed) * saved[1]
    masks = pairs * sum(kinds.values())  # booleans
    most = saved[0] if architecture.whole else max(saved)
    of_kinds = tuple((saved[-1] if kind.whole else most) * kind.attention for kind, _ in architecture.kinds)
    if architecture.borrowing:
        again = _repeated_again(architecture, path, tokens, kinds)
        of_kinds = tuple(map(sum, zip(of_kinds, again, strict=True)))
        shares = kept_shares(architecture, layout.recompute_interval)
        kept += sum(share * more for share, more in zip(shares, again, strict=True))
    return Scores(of_kinds, kept, masks, cached, waiting, forward=max(saved) + masks, backward=0)


@lru_cache(maxsize=1024)
def _windowed_share(architecture: Architecture, recompute_interval: int) -> float:
    """Of the layers that keep everything, those that attend within a window."""
    kept = _kept(architecture, recompute_interval)
    return sum(map(architecture.windowed, kept)) / max(1, len(kept))


@lru_cache(maxsize=1024)
def kept_shares(architecture: Architecture, recompute_interval: int) -> tuple[float, ...]:
    """Of the layers that keep everything, those of each kind."""
    kept = [architecture.kind(layer) for layer in _kept(architecture, recompute_interval)]
    return tuple(kept.count(kind) / max(1, len(kept)) for kind, _ in architecture.kinds)


def _attending_share(architecture: Architecture, recompute_interval: int) -> float:
    """Of the layers that keep everything, those with attention."""
    shares = zip(architecture.kinds, kept_shares(architecture, recompute_interval), strict=True)
    return sum(share for (kind, _), share in shares if kind.attention)


def _kept(architecture: Architecture, recompute_interval: int) -> list[int]:
    """The layers that are not recomputed."""
    return [layer for layer in range(architecture.num_layers) if not recompute_interval or layer % recompute_interval]


def _eager(architecture: Architecture, path: CodePath, pairs: int, attending: float) -> Scores:
    """Bytes per pair and head that eager attention saves, needs forward, and adds to what it saved backward.

    Simulated on Llama 3.2, Gemma 2 and gpt-oss, transformers 5.23: the softmax runs in fp32 and is kept with its copy
    in the compute type, Gemma 2's with the capped scores; with sinks it runs in the sinks' type. Masks are numbers.
    """
    compute, numbers = path.compute, architecture.num_heads * pairs
    saved, forward, backward = 4 + compute, 8 + compute, 4 + compute
    if architecture.model_type == "gemma2":
        saved += compute
    if architecture.attention_sinks and path.residual == compute:
        saved, forward, backward = compute, 3 * compute, 2 * compute
    masks = compute * pairs * len(architecture.layers_by_window)
    of_kinds = tuple(saved * numbers * kind.attention for kind, _ in architecture.kinds)
    kept = attending * saved * numbers
    return Scores(of_kinds, kept, masks, 0, 0, forward * numbers, backward * numbers)


def _with_mask(architecture: Architecture, path: CodePath, tokens: int, before: int, pairs: int) -> int:
    """What SDPA saves on top: the mask as numbers, and keys and values repeated for all heads; one head is a view.

    `before`: tokens of the prefixes of all rows, which have keys and values alone.
    """
    repeats = architecture.num_kv_heads > 1
    repeated = architecture.query_size - architecture.kv_size if repeats else 0
    each = architecture.query_size if repeats else architecture.kv_size
    return path.compute * (2 * repeated * tokens + 2 * each * before + pairs)


def _repeated_again(
    architecture: Architecture, path: CodePath, tokens: int, masks: dict[int | None, bool]
) -> tuple[int, ...]:
    """Of each kind what it saves more than its own keys and values: borrowed ones, which SDPA repeats in each layer."""
    windows = {False: architecture.sliding_window, True: None}
    repeats = (
        kind.borrows and masks[windows[kind.whole]] and architecture.num_kv_heads > 1 for kind, _ in architecture.kinds
    )
    widths = (architecture.attending_in(kind).kv_size for kind, _ in architecture.kinds)
    return tuple(2 * path.compute * width * tokens * again for width, again in zip(widths, repeats, strict=True))


def _cached(architecture: Architecture, path: CodePath, tokens: int) -> int:
    """Keys and values of all layers."""
    return path.compute * tokens * architecture.cached_features


def prefix_tokens(work: Workload) -> int:
    """Tokens of the prefix before every row."""
    return work.lora.prefix_tokens if work.lora else 0


def _without_mask(architecture: Architecture, work: Workload, path: CodePath, tokens: int) -> int:
    """Behind a fused projection queries are concatenated head by head, so the flash kernel's output is copied."""
    copied = len(architecture.modules.qkv) == 1 and keeps_output(architecture, work.lora, path)
    return path.compute * architecture.query_size * tokens * copied


def one_row(layout: Layout, work: Workload) -> bool:
    """Whether a micro batch is one row: so TRL 1.16 hands packed examples over; packed text keeps its rows."""
    return layout.packing and work.method.packs == "examples"


def row_tokens(layout: Layout, work: Workload) -> int:
    """Tokens of a row as attention sees it."""
    return work.seq_len_tokens * (layout.micro_batch if one_row(layout, work) else 1)


def masked(window: int | None, layout: Layout, work: Workload, sequences: int) -> bool:
    """Whether SDPA gets a mask: packed examples in a row, rows of different length, more tokens than the window, a
    prefix before them.

    Context parallelism drops the mask (accelerate 1.15): rows are padded behind, where causal attention never looks.
    """
    if layout.attends.apart == BOUNDARIES or layout.attends.keeps_scores or layout.mesh.context > 1:
        return False
    if prefix_tokens(work):
        return True
    told_apart = work.compiled or one_row(layout, work) or (work.padded and sequences > 1 and not layout.packing)
    return told_apart or (window is not None and window <= row_tokens(layout, work))
