"""What writes the answers that a method learns from: one row each."""

from __future__ import annotations

from msgspec import Struct


class Generator(Struct, frozen=True, kw_only=True):
    """A generator of answers, as estimates and trainer arguments need it."""

    name: str  # the value of alignment.generation.engine
    title: str  # for people: "vLLM"
    means: str  # for editors
    packages: tuple[str, ...]  # that it needs beside those of every bundle
    own_copy: bool  # it writes with a copy of the weights, which it gets anew for each generation
    beside: bool  # on GPUs of its own, which do not train; False: on those that train
    # GPUs of a node that may share a copy on those that train: the planner takes the fewest with which a layout fits
    splits: tuple[int, ...]
    replays: bool  # a step is one launch of a recorded graph; False: each kernel is launched by itself
    # Times that keys and values move in a step: read once where they stay in place. Copied, old ones are read, new ones
    # written and both read by attention (counted on meta tensors: two caches for the copies alone).
    cache_moves: float
    source: str


PROFILED_TOKENS = 4096  # of vLLM's first run, which measures what it needs beside weights and cache; TRL's number
SERVER_SHARE = 0.9  # of the memory of a GPU that it has alone, which a generator reserves at most: our decision

TRANSFORMERS = Generator(
    name="transformers",
    title="transformers",
    means="transformers' own generation, with the very weights that learn; needs no package",
    packages=(),
    own_copy=False,
    beside=False,
    splits=(1,),
    replays=False,
    cache_moves=3.5,
    source="transformers 5.23 cache_utils.py (DynamicCache)",
)
VLLM = Generator(
    name="vllm",
    title="vLLM",
    means="vLLM on the GPUs that train, with a copy of the weights that sleeps while the model learns",
    packages=("vllm",),
    own_copy=True,
    beside=False,
    splits=(1, 2, 4, 8),
    replays=True,
    cache_moves=1.0,
    source="TRL 1.16 generation/vllm_generation.py; PagedAttention (arXiv 2309.06180, 2023)",
)
VLLM_SERVER = Generator(
    name="vllm-server",
    title="vLLM",
    means="vLLM as a server on GPUs of the node that do not train; it gets the weights anew for each generation",
    packages=("vllm",),
    own_copy=True,
    beside=True,
    splits=(1,),
    replays=True,
    cache_moves=1.0,
    source="TRL 1.16 generation/vllm_client.py; vLLM 0.30 (its weight transfer over NCCL)",
)
GENERATORS = {row.name: row for row in (TRANSFORMERS, VLLM, VLLM_SERVER)}
