"""What the layers of a hybrid without attention save and need, in bytes per token: one law for each kind of mixer.

The terms follow transformers 5.23's own operations one by one, as they run where flash-linear-attention, causal_conv1d
and mamba_ssm are not installed, and were counted on the real modules with hooks on what they save (2026-11-24; those of
Mamba 2 2026-11-27). The kernels of those packages keep less; nobody measured how much for recipec, and the pinned
requirements do not have them.
"""

from __future__ import annotations

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.catalog.mixers import GatedDeltaNet, ShortConvolution, StateSpace
from recipec.estimate.codepath import CodePath
from recipec.estimate.modules import kept_inputs
from recipec.estimate.workload import LoraShape

CHUNK = 64  # tokens that the gated delta rule solves at once (`torch_chunk_gated_delta_rule`)
FP32_BYTES = 4
# What a mixer of Mamba 2 holds at most while it runs and saves nothing, and on top of what it saves while it runs, or
# is run again, and saves: fitted to within 6 % to peaks of the real module at 512 and 1,024 tokens in 7 to 13 shapes
# (2026-11-27). Its backward holds less. Local variables of the scan live until it returns.
RUNNING = (23, 18, 10, 3, 4, 0)
SAVING_FROZEN = (9, 9, 4, 4, 0, 4)
SAVING_TRAINED = (-4, 11, 5, 3, 0, 2)


class Mixing(Struct, frozen=True):
    """Bytes per token of one mixer."""

    saved: int
    backward: int  # while it runs backward or is recomputed, on top of what it saves
    forward: int  # while it runs and saves nothing


NO_MIXER = Mixing(0, 0, 0)


def mixing(architecture: Architecture, lora: LoraShape | None, path: CodePath) -> Mixing:
    """The mixer of a hybrid's layers without attention."""
    mixer = architecture.mixer
    assert mixer is not None
    *reading, (_, inner, _) = mixer.linear_shapes(architecture.hidden_size)
    inputs = kept_inputs(architecture.hidden_size, tuple(name for name, _, _ in reading), lora, path)
    inputs += kept_inputs(inner, ("out_proj",), lora, path)
    if isinstance(mixer, ShortConvolution):
        return _short_convolution(architecture.hidden_size, inputs, path)
    if isinstance(mixer, StateSpace):
        return _state_space(mixer, architecture.hidden_size, inputs, lora is None, path)
    return _gated_delta(mixer, inputs, lora is None, path)


def state_bytes(architecture: Architecture, path: CodePath) -> int:
    """What the mixers of all layers hold of a sequence while it is continued, however long it is."""
    mixer = architecture.mixer
    if mixer is None:
        return 0
    if isinstance(mixer, ShortConvolution):
        return architecture.mixed_layers * path.compute * architecture.hidden_size * mixer.kernel
    if isinstance(mixer, StateSpace):
        remembered = FP32_BYTES * mixer.inner * mixer.state + path.compute * mixer.convolved * mixer.kernel
        return architecture.mixed_layers * remembered
    state = FP32_BYTES * mixer.value_size * mixer.key_dim + path.compute * mixer.convolved * mixer.kernel
    return architecture.mixed_layers * state


def pairs_of(mixer: GatedDeltaNet) -> int:
    """Numbers per token that hold the pairs of a chunk's tokens, for every value head."""
    return mixer.value_heads * CHUNK


def _gated_delta(mixer: GatedDeltaNet, inputs: int, trains: bool, path: CodePath) -> Mixing:
    """The rule in fp32: keys and queries are repeated for every value head, and pairs of a chunk's tokens are held.

    Autocast casts the operands of each product anew, and keeps those copies.
    """
    v, k = mixer.value_size, mixer.value_heads * mixer.key_dim
    pairs, state = pairs_of(mixer), mixer.key_dim * v // CHUNK
    cast = path.compute if path.autocast else 0
    rule = FP32_BYTES * (5 * v + 6 * k + 2 * pairs + state + 8 * mixer.value_heads)
    products = cast * (2 * v + 7 * k + 3 * pairs + 2 * state) if cast else FP32_BYTES * (v + 2 * k + 3 * pairs)
    gate = path.residual * v + (path.compute * v + FP32_BYTES * mixer.value_heads if trains else 0)
    convolved = path.compute * (2 * mixer.convolved + mixer.value_heads)
    return Mixing(
        saved=inputs + rule + products + gate + convolved,
        backward=0,
        forward=FP32_BYTES * (4 * v + 5 * k + 3 * pairs) + path.compute * (mixer.convolved + 2 * v),
    )


def _short_convolution(hidden: int, inputs: int, path: CodePath) -> Mixing:
    """Both gates and what is convolved are one tensor; beside it what goes into the convolution and what comes out."""
    return Mixing(
        saved=inputs + path.compute * 5 * hidden,
        backward=0,
        forward=path.compute * 6 * hidden,
    )


def _state_space(mixer: StateSpace, hidden: int, inputs: int, trains: bool, path: CodePath) -> Mixing:
    """The scan in fp32: pairs of a chunk's tokens for every head, and what writes and reads a state repeated for it.

    Autocast casts the operands of each product, and keeps those copies; without it they are copied in fp32.
    """
    inner, pairs, states = mixer.inner, mixer.heads * mixer.chunk, mixer.heads * mixer.state
    operand = path.compute if path.autocast else FP32_BYTES
    cast = trains and path.autocast_copies  # of the convolution's input for its weights in fp32: the gate is let go
    projected = path.compute * (mixer.convolved if cast else inner + mixer.convolved + mixer.heads)
    remembered = 2 * operand * inner * mixer.state // mixer.chunk
    scan = (6 * FP32_BYTES - 2 + 3 * operand) * inner + (FP32_BYTES + 2 * operand) * pairs
    scan += (FP32_BYTES + 4 * operand) * states + 16 * mixer.heads + FP32_BYTES + remembered
    norm = trains * FP32_BYTES * (2 * inner + mixer.heads)  # its weight, and what skips the scan
    saved = inputs + projected + path.compute * (mixer.convolved + mixer.heads) + scan - 2 * inner + norm
    return Mixing(
        saved=saved + _otherwise(mixer, trains),
        backward=_beside(mixer, hidden, SAVING_TRAINED if trains else SAVING_FROZEN),
        forward=_beside(mixer, hidden, RUNNING),
    )


def _beside(mixer: StateSpace, hidden: int, counts: tuple[int, int, int, int, int, int]) -> int:
    """Bytes per token by features, what writes and reads, pairs, states of the chunks, groups and hidden size."""
    states = mixer.inner * mixer.state // mixer.chunk
    groups = mixer.convolved - mixer.inner
    sizes = (mixer.inner, mixer.heads * mixer.state, mixer.heads * mixer.chunk, states, groups, hidden)
    return sum(count * size for count, size in zip(counts, sizes, strict=True))


def _otherwise(mixer: StateSpace, trains: bool) -> int:
    """What Falcon-H1's keeps otherwise, counted by one size after the other (2026-11-27): numbers in fp32 multiply what
    is projected, which is then in fp32 where weights are; without a norm the gate keeps what it takes and gives alone.
    """
    kept = 0 if mixer.normed else -(8 if trains else 10) * mixer.inner
    if mixer.scaled:
        kept += 4 * mixer.heads
        kept += trains * (4 * mixer.inner + 8 * (mixer.convolved - mixer.inner) + 8 * mixer.heads)
    return kept
