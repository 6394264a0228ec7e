"""What computing the loss from the last hidden states takes: the largest single difference between trainers.

The methods' own codes come first; the others exist to score published runs. A code is a row of CODES below.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import final_norm
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import Workload

TRL_TOKEN_CHUNK = 4096  # trl/kernels/chunked_logprob.py TOKEN_CHUNK_SIZE, TRL 1.16
TRL_VOCABULARY_CHUNK = 32768  # its chunk_size in the SFT, DPO and KTO trainers
# Tiles in fp32 that its fallback in torch makes beside the first: z, z - max and exp(z - max) forward; backward y, z,
# log p, p, the gradient, the target's mask as boolean and number, and its difference from p. And how often both pass
# over a tile in all: read and written, counted in the same functions (TRL 1.16, `_forward_tile`, `_backward_tile`).
LABEL_TILES, TORCH_TILE_PASSES = (3, 7.25), 42
DIVERGENCE_TILES = (4, 7)  # the same of two models' tiles: simulated on a CPU, chunked_divergence.py in torch
TRL_TILE = 32768  # VOCAB_CHUNK_SIZE in trl/kernels/chunked_divergence.py; its TOKEN_CHUNK_SIZE is as above
NORM_FORWARD, NORM_BACKWARD = 14, 24  # bytes per feature at the peak of a norm in fp32, with what it keeps
LITGPT_TOKEN_CHUNK = 128  # lm_head_chunk_size in litgpt/finetune/lora.py


class Head(Struct, frozen=True):
    """Bytes of the head in a step."""

    forward: int  # while the model's forward computes what it returns
    backward: int  # while the loss is computed from that, or differentiated
    evaluation: int
    saved: int  # kept from the forward to the loss's backward; `forward` and `backward` have it in them
    held_weight: int  # elements of the head's weight whose autocast copy the graph still holds
    moved: int  # by elementwise operations, both ways


Needs = Callable[[int, Architecture, int, CodePath], Head]  # of tokens, and elements of the head's weight that train


class LossCode(Struct, frozen=True, kw_only=True):
    """One code that gets from the last hidden states to the loss."""

    name: str  # Method.head, or Workload.head
    to_vocabulary: bool  # multiplies by the vocabulary's matrix; else every token gets one number
    repeats: int  # how often that product is made again: in the backward pass, for another result
    needs: Needs
    source: str


def loss_code(work: Workload) -> LossCode:
    """The row of the code that computes the loss; raises KeyError where there is none."""
    return CODES[work.code]


def _chunked(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """The scored positions are copied out of the hidden states; gradients are summed in fp32, then cast.

    Tiles of a weight or input in fp32 are cast one at a time.
    """
    hidden = architecture.hidden_size
    rows, columns = min(tokens, TRL_TOKEN_CHUNK), min(architecture.vocab_size, TRL_VOCABULARY_CHUNK)
    weight = _weight_bytes(trains, path)
    casts = columns * (weight > path.compute) + rows * (path.residual > path.compute)
    width = columns if path.whole_tiles else TRL_VOCABULARY_CHUNK  # what nobody touches takes no memory of a host
    tile = path.compute * (rows * width + casts * hidden)
    saved = path.residual * hidden * tokens
    sums = 4 * (hidden * tokens + trains)
    cast_back = (saved if path.residual < 4 else 0) + (weight * trains if weight < 4 else 0)
    forward = tile + 2 * saved
    backward = tile + saved + sums + cast_back
    head = Head(forward, backward, forward, saved, 0, 2 * backward)
    return _whole_tiles(head, tokens, architecture, LABEL_TILES) if path.whole_tiles else head


def _valued(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """The same, and an estimate of each state: the states are copied in fp32 for it, and kept for its gradient."""
    labels, copied = _chunked(tokens, architecture, trains, path), 4 * architecture.hidden_size * tokens
    return replace(
        labels,
        forward=labels.forward + copied,
        backward=labels.backward + copied,
        saved=labels.saved + copied,
        moved=labels.moved + 4 * copied,
    )


def _whole_tiles(head: Head, tokens: int, architecture: Architecture, tiles: tuple[float, float]) -> Head:
    """The same where operations of torch fold the tiles: so many more of them forward and backward."""
    columns = min(architecture.vocab_size, TRL_VOCABULARY_CHUNK)
    forward, backward = (round(count * 4 * min(tokens, TRL_TOKEN_CHUNK) * columns) for count in tiles)
    return replace(
        head,
        forward=head.forward + forward,
        backward=head.backward + backward,
        evaluation=head.evaluation + forward,
        moved=head.moved + TORCH_TILE_PASSES * 4 * tokens * architecture.vocab_size,
    )


def _divergence(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """Behind the labels' log-probabilities, whose copy of the states is then freed, tiles of both logits in fp32.

    The gradient of a tile is cast while that of the tile before it is still there. The teacher's states are no part of
    this: they wait from its pass on.
    """
    labels, head = _chunked(tokens, architecture, trains, path), _divergence_tiles(tokens, architecture, trains, path)
    head = _whole_tiles(head, tokens, architecture, DIVERGENCE_TILES) if path.whole_tiles else head
    return replace(head, forward=max(labels.forward, head.forward), evaluation=max(labels.evaluation, head.evaluation))


def _divergence_tiles(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """Tiles of both logits in fp32 and what is cast for them."""
    hidden, vocabulary = architecture.hidden_size, TRL_TILE
    rows, columns = min(tokens, TRL_TOKEN_CHUNK), min(architecture.vocab_size, vocabulary)
    another = min(columns, architecture.vocab_size - columns) or (columns if tokens > rows else 0)
    cast_states = path.compute * hidden * rows * (path.residual > path.compute)
    weight = _weight_bytes(trains, path)
    cast_weight = path.compute * hidden * columns * (weight > path.compute)
    gradient, before = path.compute * rows * columns, path.compute * rows * another
    tiles, saved, sums = 2 * 4 * rows * vocabulary, path.residual * hidden * tokens, 4 * (hidden * tokens + trains)
    cast_back = (saved if path.residual < 4 else 0) + (weight * trains if weight < 4 else 0)
    forward = tiles + cast_states + cast_weight + 3 * saved
    backward = tiles + saved + sums + max(gradient + cast_states + max(before, cast_weight), cast_back)
    return Head(forward, backward, forward, saved, 0, 3 * backward)


def _written_divergence(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """The same without log-probabilities of labels: what on_policy.py of a bundle computes."""
    tiles = _divergence_tiles(tokens, architecture, trains, path)
    return _whole_tiles(tiles, tokens, architecture, DIVERGENCE_TILES) if path.whole_tiles else tiles


def _weight_bytes(trains: int, path: CodePath) -> int:
    """Of one element of the head's weight as the loss sees it: gathered in the compute type where it is sharded."""
    return path.compute if path.weight_shards > 1 else path.trained if trains else path.frozen


def _per_logit(forward_bytes: int, backward_bytes: int, fp32_chunk_tokens: int = 0) -> Needs:
    """A code that keeps all logits: bytes for each, with 8 more for those of a chunk that is differentiated."""

    def needs(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
        logits = architecture.vocab_size * tokens
        saved = path.compute * architecture.hidden_size * tokens if trains else 0
        chunk = 8 * architecture.vocab_size * min(tokens, fp32_chunk_tokens)
        forward, backward = forward_bytes * logits, backward_bytes * logits + saved + chunk
        return Head(forward + saved, backward, forward, saved, trains, 2 * backward)

    return needs


def _scalar(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """One score per token, of which the last of each sequence counts: what is large is the final norm's own work.

    Beside what the norm keeps for its backward pass, simulated in every code path.
    """
    kept, hidden = final_norm(architecture, bool(trains), path), architecture.hidden_size
    forward, backward = (tokens * (each * hidden - kept) for each in (NORM_FORWARD, NORM_BACKWARD))
    evaluation = tokens * hidden * (8 + 2 * path.residual)
    return Head(forward, backward, evaluation, path.compute * hidden * tokens, 0, 2 * backward)


def _liger(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """Chunks of tokens against the whole vocabulary, with the gradients made in the forward."""
    hidden, vocabulary = architecture.hidden_size, architecture.vocab_size
    tile = 4 * vocabulary * _liger_rows(tokens, hidden, vocabulary)
    saved = path.compute * hidden * tokens if trains else 0
    forward = tile + path.residual * hidden * tokens
    weight = trains * (4 + (path.trained if path.trained < 4 else 0))
    backward = tile + (4 + path.compute) * hidden * tokens + weight + saved
    return Head(forward + saved, backward, forward, saved, 0, 2 * backward)


def _liger_rows(tokens: int, hidden: int, vocabulary: int) -> int:
    """Rows per chunk in Liger's fused linear cross-entropy: tokens over ceil(vocabulary / hidden), a power of two."""
    rows = -(-tokens // -(-vocabulary // hidden))
    return 1 << (rows - 1).bit_length()


def _code(name: str, needs: Needs, source: str, *, to_vocabulary: bool = True, repeats: int = 0) -> LossCode:
    return LossCode(name=name, to_vocabulary=to_vocabulary, repeats=repeats, needs=needs, source=source)


CODES = {
    row.name: row
    for row in (
        _code("chunked", _chunked, "TRL 1.16 add_fused_lm_head: log-probabilities by tiles, no logits", repeats=1),
        _code("valued", _valued, "the same, and one row on the hidden states in fp32: critic.py", repeats=1),
        _code("divergence", _divergence, "the same, and TRL 1.16 ChunkedDivergenceFunction by tiles", repeats=2),
        _code(
            "written_divergence", _written_divergence, "TRL 1.16 DistillationTrainer._compute_loss by tiles", repeats=1
        ),
        _code("scalar", _scalar, "transformers 5.23 GenericForSequenceClassification", to_vocabulary=False),
        _code("hf", _per_logit(10, 12), "transformers: an fp32 copy of the logits, their log-softmax, its gradient"),
        _code("hf-fp32-copy", _per_logit(12, 14), "older transformers: the same with the bf16 logits still alive"),
        _code("inplace", _per_logit(6, 8), "a fused cross-entropy on fp32 logits, whose gradient is written over them"),
        _code("fused", _liger, "Liger: linear and cross-entropy in one kernel, token chunks, no logits"),
        _code("torchtune", _per_logit(6, 7), "cross-entropy in fp32 on an eighth of the tokens at a time"),
        _code(
            "litgpt",
            _per_logit(8, 8, LITGPT_TOKEN_CHUNK),
            "the same on 128 tokens at a time, with the logits in fp32: Lightning Fabric casts what a module returns, "
            "and the training loop holds it until the next step",
        ),
    )
}
