"""What the recurrence of a hybrid's mixers takes of time beside its layers' saved bytes, chunk by chunk of a row.

Counted with a dispatch mode on fake tensors, transformers 5.23 `torch_chunk_gated_delta_rule` at 512, 1,024 and 2,048
tokens with autocast (2026-11-24): 380 bytes moved forward per value feature and token, which is what the saved bytes
give; backward 750, and 82 more for each chunk, since the gradient of a chunk is written into a tensor of all chunks
and added to those of the others.

The scan of Mamba 2 has no loop over chunks. Counted likewise on `GraniteMoeHybridMambaLayer` with autocast
(2026-11-27), by chunk, state and head size in turn: bytes that are moved for each pair of a chunk's tokens, number of a
state and feature, which is more than the saved bytes give, and operations whatever the length.
"""

from __future__ import annotations

from recipec.catalog.architecture import Architecture
from recipec.catalog.mixers import GatedDeltaNet, ShortConvolution, StateSpace
from recipec.estimate.mixers import CHUNK, FP32_BYTES, pairs_of

CHUNK_LAUNCHES, CHUNK_LAUNCHES_BACKWARD = 17, 43  # operations for each chunk in a layer's forward and backward
WHOLE_MOVES = 4  # of each tensor that chunks are read from: its gradient is written, read, added to and written
OUTPUT_MOVES = 2  # of the outputs, which chunks are written into
SCAN_LAUNCHES, SCAN_LAUNCHES_BACKWARD = 88, 117  # operations in a layer's forward and backward
SCAN_MOVES = (23, 64, 93)  # for a pair, a number of a state and a feature, beyond what the saved bytes give
SCAN_MOVES_BACKWARD = (42, 45, 138)


def chunks_of(seq_len_tokens: int) -> int:
    """Chunks of a row."""
    return -(-seq_len_tokens // CHUNK)


def recurrent_flops(architecture: Architecture) -> float:
    """Operations per token of all mixers' own products in a forward; 0 where every layer has attention."""
    mixer = architecture.mixer
    if mixer is None:
        return 0.0
    if isinstance(mixer, ShortConvolution):
        return architecture.mixed_layers * 2.0 * mixer.kernel * architecture.hidden_size
    if isinstance(mixer, StateSpace):
        pairs = 2.0 * mixer.chunk * mixer.heads * (mixer.state + mixer.head_dim)
        return architecture.mixed_layers * (pairs + 4.0 * mixer.inner * mixer.state)
    pairs = 2 * CHUNK * (2 * mixer.key_dim + mixer.value_dim)
    return architecture.mixed_layers * mixer.value_heads * (pairs + 6.0 * mixer.key_dim * mixer.value_dim)


def moved_forward(architecture: Architecture) -> float:
    """Bytes per token that a forward of all mixers moves beyond what their saved bytes give."""
    mixer = architecture.mixer
    return architecture.mixed_layers * _by_scan(mixer, SCAN_MOVES) if isinstance(mixer, StateSpace) else 0.0


def moved_backward(architecture: Architecture, seq_len_tokens: int) -> float:
    """The same of a backward: gradients of chunks are parts of whole tensors."""
    mixer = architecture.mixer
    if isinstance(mixer, StateSpace):
        return architecture.mixed_layers * _by_scan(mixer, SCAN_MOVES_BACKWARD)
    if not isinstance(mixer, GatedDeltaNet):
        return 0.0
    return architecture.mixed_layers * chunks_of(seq_len_tokens) * _by_chunk(mixer)


def _by_scan(mixer: StateSpace, moves: tuple[int, int, int]) -> float:
    """Of every head: the pairs of a token, what is written and read, and its features."""
    each = (mixer.chunk, mixer.state, mixer.head_dim)
    return float(mixer.heads * sum(count * size for count, size in zip(moves, each, strict=True)))


def _by_chunk(mixer: GatedDeltaNet) -> float:
    """Chunks are read from new values, old values' keys, queries, keys, and the pairs of each chunk."""
    read = mixer.value_size + 3 * mixer.value_heads * mixer.key_dim + pairs_of(mixer)
    return FP32_BYTES * (WHOLE_MOVES * read + OUTPUT_MOVES * mixer.value_size)


def launched_forward(architecture: Architecture, seq_len_tokens: int) -> int:
    """Operations that Python issues for the chunks of a row, or its scan, in a pass over all layers."""
    if isinstance(architecture.mixer, StateSpace):
        return architecture.mixed_layers * SCAN_LAUNCHES
    return _chunked_layers(architecture) * chunks_of(seq_len_tokens) * CHUNK_LAUNCHES


def launched_backward(architecture: Architecture, seq_len_tokens: int) -> int:
    """Those of a backward beyond those of a forward."""
    if isinstance(architecture.mixer, StateSpace):
        return architecture.mixed_layers * (SCAN_LAUNCHES_BACKWARD - SCAN_LAUNCHES)
    more = CHUNK_LAUNCHES_BACKWARD - CHUNK_LAUNCHES
    return _chunked_layers(architecture) * chunks_of(seq_len_tokens) * more


def _chunked_layers(architecture: Architecture) -> int:
    """Layers whose mixer goes through a row chunk by chunk; a convolution sees all of it at once."""
    return architecture.mixed_layers if isinstance(architecture.mixer, GatedDeltaNet) else 0
