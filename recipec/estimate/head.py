"""What computing the loss from the last hidden states takes: the largest single difference between trainers.

trl           TRL >= 1.0: log-probabilities chunk by chunk over tokens and vocabulary; no logits exist.
hf            transformers' own loss: fp32 copy of the logits, their log-softmax and its gradient, 12 bytes per logit.
hf-fp32-copy  the same with the bf16 logits still alive (older transformers), 14 bytes per logit.
inplace       a fused cross-entropy on full fp32 logits, gradient written over them: 8 bytes per logit.
fused         linear and cross-entropy in one kernel (Liger): token chunks, no logits.
chunked       cross-entropy over chunks of tokens on full logits: the logits and their gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath
from recipec.estimate.sizes import Sizes
from recipec.estimate.work import Work

TRL_TOKEN_CHUNK = 4096  # trl/kernels/chunked_logprob.py TOKEN_CHUNK_SIZE, TRL 1.16
TRL_VOCABULARY_CHUNK = 32768  # its chunk_size in the SFT and DPO trainers
_BYTES_PER_LOGIT = {"hf": (10, 12), "hf-fp32-copy": (12, 14), "inplace": (6, 8), "chunked": (4, 6)}


@dataclass(frozen=True, slots=True)
class Head:
    """Bytes of the head in a step: while the loss is computed forward, and while it is differentiated."""

    forward: int
    backward: int
    evaluation: int
    held_weight: int  # elements of the head's weight whose autocast copy the graph still holds


def head_bytes(work: Work, tokens: int, architecture: Architecture, sizes: Sizes, path: CodePath) -> Head:
    """What the loss of `tokens` tokens needs beside the saved activations."""
    vocabulary = architecture.vocab_size
    trains = sizes.embedding if work.lora is None else 0
    if work.head in _BYTES_PER_LOGIT:
        forward, backward = (per_logit * vocabulary * tokens for per_logit in _BYTES_PER_LOGIT[work.head])
        return Head(forward, backward, forward, trains)
    hidden_bytes = architecture.hidden_size * tokens
    tile = _tile(work.head, tokens, architecture, path)
    weight = trains * (4 + (path.trained if path.trained < 4 else 0))
    forward = tile + path.residual * hidden_bytes
    return Head(forward, tile + (4 + path.compute) * hidden_bytes + weight, forward, 0)


def _tile(head: str, tokens: int, architecture: Architecture, path: CodePath) -> int:
    """The block of logits that exists at a time."""
    vocabulary = architecture.vocab_size
    if head == "trl":
        return path.compute * min(tokens, TRL_TOKEN_CHUNK) * min(vocabulary, TRL_VOCABULARY_CHUNK)
    return 4 * vocabulary * _liger_rows(tokens, architecture.hidden_size, vocabulary)


def _liger_rows(tokens: int, hidden: int, vocabulary: int) -> int:
    """Rows per chunk in Liger's fused linear cross-entropy: tokens over ceil(vocabulary / hidden), a power of two."""
    rows = -(-tokens // -(-vocabulary // hidden))
    return 1 << (rows - 1).bit_length()
