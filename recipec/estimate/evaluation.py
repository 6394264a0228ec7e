"""Where evaluate.py holds a model on one node, and how many tokens it scores at once."""

from __future__ import annotations

from msgspec import Struct

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import code_path
from recipec.estimate.device import allocatable_bytes
from recipec.estimate.head import loss_code
from recipec.estimate.judges import judge_bytes
from recipec.estimate.mixers import state_bytes
from recipec.estimate.optimizers import FP32_BYTES
from recipec.estimate.scores import prefix_tokens
from recipec.estimate.sizes import sizes
from recipec.estimate.workload import Workload
from recipec.layout import EVALUATED, Layout

# Where the weights are: all of them on each GPU, spread over those of a node, or partly in host memory.
WHOLE, SHARED, OFFLOADED = PLACEMENTS = "whole", "spread", "offloaded"

TOKENS_AT_ONCE = (512, 1_024, 2_048, 4_096)  # of a batch with its padding; more keep no GPU busier
ON_CPU = 1_024  # larger batches leave the processor's cache: 1.1 to 1.2 times slower (9M parameters, 2026-11)
LOSSES_AT_ONCE, LOSS_COPIES = 512, 3  # tokens whose loss is taken at once, and fp32 copies of their logits meanwhile
BATCH_SHARE = 0.25  # of a GPU's memory that a batch may take: recipec's choice
UNEVEN = 0.9  # of the memory of several GPUs that whole layers fill
# Questions in a batch, whose keys and values are in memory: of the few samples, and where every row is answered.
SAMPLES_AT_ONCE = (1, 2, 4, 8)
ANSWERS_AT_ONCE = (*SAMPLES_AT_ONCE, 16, EVALUATED)
LAYER_COPIES = 6  # tensors of a layer's width that are alive at once, in the forward pass of one layer


class Held(Struct, frozen=True):
    """A model that is scored, with a teacher and reward models where there are any."""

    bytes: int
    where: str  # of PLACEMENTS

    @property
    def whole(self) -> bool:
        """Whether one GPU has room for it."""
        return self.where == WHOLE

    @property
    def offloaded(self) -> bool:
        """Whether the GPUs of a node have no room for it."""
        return self.where == OFFLOADED


class Evaluation(Struct, frozen=True):
    """What evaluate.py needs of the GPUs of one node."""

    trained: Held  # with its adapter; the model before training takes as much
    merged: Held | None  # None where nothing is merged
    gpus: int  # of the node, that it may use
    batch_bytes: int  # beside the weights
    tokens_at_once: int
    answers_at_once: int


def evaluation_needs(
    architecture: Architecture, layout: Layout, work: Workload, gpu_memory_gib: float, gpus: int, on_cpu: bool
) -> Evaluation:
    """Place a model that is scored on a node with `gpus` GPUs."""
    usable = allocatable_bytes(gpu_memory_gib, 1)
    tokens = ON_CPU if on_cpu else _tokens_at_once(architecture, layout, work, usable)
    batch = batch_bytes(architecture, layout, work, tokens)

    def held(size: int) -> Held:
        if size + batch <= usable or on_cpu:
            return Held(size, WHOLE)
        return Held(size, SHARED if size <= UNEVEN * gpus * max(0, usable - batch) else OFFLOADED)

    return Evaluation(
        trained=held(_weights(architecture, layout, work)),
        merged=held(_unquantized(architecture, layout, work)) if layout.adapts.merges else None,
        gpus=gpus,
        batch_bytes=batch,
        tokens_at_once=tokens,
        answers_at_once=_answers_at_once(architecture, layout, work, tokens),
    )


def batch_bytes(architecture: Architecture, layout: Layout, work: Workload, tokens_at_once: int) -> int:
    """What a batch takes of rows that are scored, or one question that is answered, whichever is more.

    A row that is longer than a batch is a batch of its own.
    The logits are alive twice, as the head gives them and without the tokens that nothing is learned from.
    """
    path, tokens = code_path(layout, work), max(tokens_at_once, work.seq_len_tokens)
    attending = (shape.query_size + 2 * shape.kv_size for _, shape in architecture.attentions)
    widest = max(*attending, 2 * _inner(architecture))
    layer = tokens * path.compute * (LAYER_COPIES * architecture.hidden_size + widest)
    vocabulary = architecture.vocab_size if loss_code(work).to_vocabulary else 1
    logits = vocabulary * (2 * path.compute * tokens + FP32_BYTES * LOSS_COPIES * LOSSES_AT_ONCE)
    eager = architecture.num_heads * tokens * work.seq_len_tokens * (FP32_BYTES + path.compute)
    scored = layer + logits * (2 if work.teacher else 1) + (eager if layout.attends.keeps_scores else 0)
    scored += tokens * path.compute * architecture.cached_features if prefix_tokens(work) else 0  # in its cache
    return max(scored, _answer(architecture, layout, work) if work.method.writes else 0)


def _answers_at_once(architecture: Architecture, layout: Layout, work: Workload, tokens_at_once: int) -> int:
    """As many as take no more than the rows that are scored: one at least.

    Behind a soft prompt one: padding would stand between the prompt and the question.
    """
    if work.lora and work.lora.virtual_tokens:
        return 1
    room, each = batch_bytes(architecture, layout, work, tokens_at_once), _answer(architecture, layout, work)
    counts = ANSWERS_AT_ONCE if work.method.generates else SAMPLES_AT_ONCE
    return max((count for count in counts if count * each <= room), default=1)


def _answer(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """Keys and values of a question as long as the longest row, and what its mixers remember."""
    path = code_path(layout, work)
    tokens = work.seq_len_tokens + prefix_tokens(work)
    return tokens * path.compute * architecture.cached_features + state_bytes(architecture, path)


def _inner(architecture: Architecture) -> int:
    """Features inside an MLP that a token passes through."""
    moe = architecture.moe
    return moe.per_token * moe.intermediate_size if moe else architecture.intermediate_size


def _tokens_at_once(architecture: Architecture, layout: Layout, work: Workload, usable: int) -> int:
    fits = [
        tokens for tokens in TOKENS_AT_ONCE if batch_bytes(architecture, layout, work, tokens) <= BATCH_SHARE * usable
    ]
    return max(fits, default=TOKENS_AT_ONCE[0])


def _weights(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """In the type that is computed in; the linear layers of a quantized base in theirs, an adapter in fp32."""
    count, path = sizes(architecture, work.lora, loss_code(work).to_vocabulary), code_path(layout, work)
    unpacked = count.linear * (path.compute - path.quantized) if path.quantized else 0.0
    packed = round(unpacked - count.linear_rows * path.row_scale)
    return _unquantized(architecture, layout, work) - packed + (count.adapters + count.mixed) * FP32_BYTES


def _unquantized(architecture: Architecture, layout: Layout, work: Workload) -> int:
    path, teacher = code_path(layout, work), work.teacher.params if work.teacher else 0
    return (architecture.params + teacher) * path.compute + round(judge_bytes(work, path))
