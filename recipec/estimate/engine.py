"""A generator that writes with a copy of the weights on the GPUs that train: what it takes while they wait for it.

It sleeps while the model learns, and then holds nothing (TRL 1.16 generation/vllm_generation.py, sleep level 2).
"""

from __future__ import annotations

from math import ceil

from recipec.catalog.architecture import Architecture
from recipec.estimate.device import GIB
from recipec.estimate.step import Step
from recipec.estimate.workload import Workload

PROFILED_TOKENS = (
    4096  # of its first run, which measures what it needs beside weights and cache (max_num_batched_tokens)
)
# fp32 logits of every answer while a token is drawn: as they come, divided, and their log-probabilities; our reading of
# vLLM's sampler, not measured.
SAMPLING_COPIES = 3
GRAPHS_BYTES = (
    GIB  # recorded graphs for its batch sizes: our decision, as large as its documentation tells; not measured
)


def engine_bytes(architecture: Architecture, work: Workload, step: Step, answers: int) -> float:
    """Bytes of a rank while it writes so many answers: weights, their keys and values at full length, and buffers."""
    path = step.fixed.path
    cache = answers * work.seq_len_tokens * path.compute * architecture.cached_features
    layer = PROFILED_TOKENS * max(max(each.forward, each.attention) for each in step.fixed.kinds)
    drawn = SAMPLING_COPIES * 4 * architecture.vocab_size * answers
    return copied_bytes(step) + cache + layer + drawn + GRAPHS_BYTES


def copied_bytes(step: Step) -> float:
    """The copy of the weights, in the type that is computed in."""
    return step.fixed.path.compute * step.fixed.sizes.params


def engine_share(engine: float, capacity: float) -> float:
    """The share of a GPU of `capacity` bytes to reserve for `engine` bytes, in hundredths."""
    return ceil(engine / capacity * 100) / 100
