"""What computing the loss from the last hidden states takes: the largest single difference between trainers.

trl           TRL >= 1.0: log-probabilities chunk by chunk over tokens and vocabulary; no logits exist.
hf            transformers' own loss: fp32 copy of the logits, their log-softmax and its gradient, 12 bytes per logit.
hf-fp32-copy  the same with the bf16 logits still alive (older transformers), 14 bytes per logit.
inplace       a fused cross-entropy on full fp32 logits, gradient written over them: 8 bytes per logit.
fused         linear and cross-entropy in one kernel (Liger): token chunks, no logits.
chunked       cross-entropy in fp32 on an eighth of the tokens at a time (torchtune): the logits and the fp32
              log-softmax of all of them, and the two fp32 gradients of one chunk.
chunked-fp32  the same on 128 tokens at a time, with the logits in fp32 (LitGPT: Lightning Fabric casts what a module
              returns, and the training loop holds it until the next step).
"""

from __future__ import annotations

from dataclasses import dataclass

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.sizes import Sizes
from recipec.estimate.work import Work

TRL_TOKEN_CHUNK = 4096  # trl/kernels/chunked_logprob.py TOKEN_CHUNK_SIZE, TRL 1.16
TRL_VOCABULARY_CHUNK = 32768  # its chunk_size in the SFT and DPO trainers
_BYTES_PER_LOGIT = {
    "hf": (10, 12),
    "hf-fp32-copy": (12, 14),
    "inplace": (6, 8),
    "chunked": (6, 7),
    "chunked-fp32": (8, 8),
}
LITGPT_TOKEN_CHUNK = 128  # lm_head_chunk_size in litgpt/finetune/lora.py


@dataclass(frozen=True, slots=True)
class Head:
    """Bytes of the head in a step: while the loss is computed forward, and while it is differentiated."""

    forward: int
    backward: int
    evaluation: int
    saved: int  # its own input, kept from the forward to its backward; `forward` and `backward` have it in them
    held_weight: int  # elements of the head's weight whose autocast copy the graph still holds


def head_bytes(work: Work, tokens: int, architecture: Architecture, sizes: Sizes, path: CodePath) -> Head:
    """What the loss of `tokens` tokens needs beside the saved activations."""
    vocabulary, hidden = architecture.vocab_size, architecture.hidden_size * tokens
    trains = sizes.embedding if work.lora is None else 0
    if work.head in _BYTES_PER_LOGIT:
        forward, backward = (per_logit * vocabulary * tokens for per_logit in _BYTES_PER_LOGIT[work.head])
        saved = path.compute * hidden if trains else 0
        chunk = 8 * vocabulary * min(tokens, LITGPT_TOKEN_CHUNK) if work.head == "chunked-fp32" else 0
        return Head(forward + saved, backward + saved + chunk, forward, saved, trains)
    if work.head != "trl":
        return _liger(tokens, architecture, trains, path)
    return _trl(tokens, architecture, trains, path)


def _trl(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """The scored positions are copied out of the hidden states; gradients are summed in fp32, then cast.

    Tiles of a weight or input in fp32 are cast one at a time.
    """
    hidden = architecture.hidden_size
    rows, columns = min(tokens, TRL_TOKEN_CHUNK), min(architecture.vocab_size, TRL_VOCABULARY_CHUNK)
    weight = _weight_bytes(trains, path)
    casts = columns * (weight > path.compute) + rows * (path.residual > path.compute)
    tile = path.compute * (rows * TRL_VOCABULARY_CHUNK + casts * hidden)
    saved = path.residual * hidden * tokens
    sums = 4 * (hidden * tokens + trains)
    cast_back = (saved if path.residual < 4 else 0) + (weight * trains if weight < 4 else 0)
    forward = tile + 2 * saved
    return Head(forward, tile + saved + sums + cast_back, forward, saved, 0)


def _weight_bytes(trains: int, path: CodePath) -> int:
    """Of one element of the head's weight as the loss sees it: gathered in the compute type where it is sharded."""
    return path.compute if path.weight_shards > 1 else path.trained if trains else path.frozen


def _liger(tokens: int, architecture: Architecture, trains: int, path: CodePath) -> Head:
    """Chunks of tokens against the whole vocabulary, with the gradients made in the forward."""
    hidden, vocabulary = architecture.hidden_size, architecture.vocab_size
    tile = 4 * vocabulary * _liger_rows(tokens, hidden, vocabulary)
    saved = path.compute * hidden * tokens if trains else 0
    forward = tile + path.residual * hidden * tokens
    weight = trains * (4 + (path.trained if path.trained < 4 else 0))
    backward = tile + (4 + path.compute) * hidden * tokens + weight
    return Head(forward + saved, backward + saved, forward, saved, 0)


def _liger_rows(tokens: int, hidden: int, vocabulary: int) -> int:
    """Rows per chunk in Liger's fused linear cross-entropy: tokens over ceil(vocabulary / hidden), a power of two."""
    rows = -(-tokens // -(-vocabulary // hidden))
    return 1 << (rows - 1).bit_length()
