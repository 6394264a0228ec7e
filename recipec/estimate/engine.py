"""A generator that writes with a copy of the weights: what it takes while the training waits for it.

On the GPUs that train it sleeps while the model learns, and then holds nothing (TRL 1.16 generation/vllm_generation.py,
sleep level 2); several GPUs may share a copy. On GPUs of its own it holds a share of them at all times, and writes as
many answers at once as their keys and values find room; the rest is for the weights on their way.
"""

from __future__ import annotations

from math import ceil, floor

from recipec.axes.generators import PROFILED_TOKENS, SERVER_SHARE
from recipec.catalog.architecture import Architecture
from recipec.estimate.device import GIB
from recipec.estimate.step import Step
from recipec.estimate.workload import Workload

# fp32 logits of every answer while a token is drawn: as they come, divided, and their log-probabilities; our reading of
# vLLM's sampler, not measured.
SAMPLING_COPIES = 3
# Weights travel to a server in chunks of so many bytes or of one larger tensor, and one is packed while the one before
# it is sent: vLLM 0.30 distributed/weight_transfer/packed_tensor.py, whose consumer has as many; not measured.
CHUNK_BYTES = GIB
# Of the process group that sends them, or of the one in which GPUs share a copy: our decision, not measured.
CONNECTION_BYTES = GIB // 2
GRAPHS_BYTES = (
    GIB  # recorded graphs for its batch sizes: our decision, as large as its documentation tells; not measured
)


def engine_bytes(architecture: Architecture, work: Workload, step: Step, answers: int, gpus: int = 1) -> float:
    """Bytes of a rank while it writes so many answers: weights, their keys and values at full length, and buffers.

    Of several GPUs that share a copy each holds its part of the weights, and its heads of the answers of all of them,
    whose logits are gathered on each (vLLM model_executor/layers/logits_processor.py).
    """
    together = gpus * answers
    cache = together * work.seq_len_tokens * step.fixed.path.compute * cached_features(architecture, gpus)
    connected = CONNECTION_BYTES * (gpus > 1)
    return copied_bytes(step) / gpus + cache + _buffers(architecture, step, together) + connected


def cached_features(architecture: Architecture, gpus: int) -> float:
    """Features of keys and values that each of the GPUs which share a copy keeps of a token.

    Each has whole heads: where there are fewer heads than GPUs, several have the same (vLLM config/model.py,
    get_num_kv_heads).
    """
    attending = ((layers, kind) for kind, layers in architecture.kinds if kind.attention and not kind.borrows)
    shapes = ((layers, architecture.attending_in(kind)) for layers, kind in attending)
    return sum(2 * layers * shape.head_dim * max(1, shape.num_kv_heads / gpus) for layers, shape in shapes)


def served_at_once(architecture: Architecture, work: Workload, step: Step, gpus: int, capacity: float) -> float:
    """Answers at full length whose keys and values find room on so many GPUs of `capacity` bytes; below 1: not one.

    The GPUs share the weights and the heads; each has buffers of its own, as for one answer.
    """
    token = gpus * step.fixed.path.compute * cached_features(architecture, gpus)
    room = gpus * (server_share(architecture, capacity) * capacity - _buffers(architecture, step, 1))
    room -= copied_bytes(step)
    return max(0.0, room / (work.seq_len_tokens * token + gpus * _drawn(architecture)))


def _buffers(architecture: Architecture, step: Step, answers: int) -> float:
    """Beside weights and cache: a layer of its first run, the logits that tokens are drawn from, recorded graphs."""
    layer = PROFILED_TOKENS * max(max(each.forward, each.attention) for each in step.fixed.kinds)
    return layer + answers * _drawn(architecture) + GRAPHS_BYTES


def _drawn(architecture: Architecture) -> float:
    return SAMPLING_COPIES * 4 * architecture.vocab_size


def copied_bytes(step: Step) -> float:
    """The copy of the weights, in the type that is computed in."""
    return step.fixed.path.compute * step.fixed.sizes.params


def sent_bytes(step: Step) -> float:
    """All weights in the type that training keeps them in, which is that in which they travel to a server."""
    path = step.fixed.path
    return (path.frozen or path.trained) * step.fixed.sizes.params


def sending_bytes(architecture: Architecture, step: Step) -> float:
    """What the rank that sends holds of the weights on their way: two chunks, and tensors that were made for them.

    A merged or gathered weight is a tensor of its own until its chunk is packed; others are read where they are.
    """
    path = step.fixed.path
    made = path.weight_shards > 1 or bool(path.frozen)
    chunks = _two_chunks(architecture, path.frozen or path.trained) + CHUNK_BYTES * made
    return min((2 if made else 1) * sent_bytes(step), chunks)


def server_share(architecture: Architecture, capacity: float) -> float:
    """The share of its GPU of `capacity` bytes that a server reserves, in hundredths: it leaves room to get weights."""
    needed = _two_chunks(architecture, 4) + CONNECTION_BYTES
    return min(SERVER_SHARE, max(0, floor((1 - needed / capacity) * 100)) / 100)


def _two_chunks(architecture: Architecture, each: int) -> float:
    table = each * architecture.vocab_size * architecture.hidden_size
    return CHUNK_BYTES + max(CHUNK_BYTES, table)


def engine_share(engine: float, capacity: float) -> float:
    """The share of a GPU of `capacity` bytes to reserve for `engine` bytes, in hundredths."""
    return ceil(engine / capacity * 100) / 100
