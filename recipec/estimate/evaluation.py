"""Where evaluate.py holds a model on one node, and how many tokens it scores at once."""

from __future__ import annotations

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import CodePath, code_path
from recipec.estimate.generation import SAMPLING_COPIES, beside_cache
from recipec.estimate.head import loss_code
from recipec.estimate.judges import judge_bytes
from recipec.estimate.mixers import state_bytes
from recipec.estimate.optimizers import FP32_BYTES
from recipec.estimate.running import running_bytes, scoring_path
from recipec.estimate.scores import prefix_tokens
from recipec.estimate.sizes import Sizes, sizes
from recipec.estimate.spreading import ROOM_TO_PACK, find_room, modules_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout

# Where the weights are: all of them on each GPU, spread over those of a node, or partly in host memory.
WHOLE, SHARED, OFFLOADED = PLACEMENTS = "whole", "spread", "offloaded"

TOKENS_AT_ONCE = (512, 1_024, 2_048, 4_096)  # of a batch with its padding; more keep no GPU busier
ON_CPU = 1_024  # larger batches leave the processor's cache: 1.1 to 1.2 times slower (9M parameters, 2026-11)
LOSSES_AT_ONCE, LOSS_COPIES = 512, 3  # tokens whose loss is taken at once, and fp32 copies of their logits meanwhile
BATCH_SHARE = 0.25  # of a GPU's memory that a batch may take: recipec's choice
# Questions in a batch, whose keys and values are in memory: of the few samples, and where every row is answered.
# A token of an answer reads all weights, for one answer as for many, so more at once are written in the same time.
SAMPLES_AT_ONCE = (1, 2, 4, 8)
ANSWERS_AT_ONCE = (*SAMPLES_AT_ONCE, 16, 32, 64, 128)  # at most 128: the rows that are evaluated by default
ANSWERS_SHARE = 0.8  # of the memory beside the weights; caches that grow leave gaps (recipec's choice)


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


class GpuRoom(Struct, frozen=True):
    """Bytes of a GPU."""

    planned: int  # that training may be predicted to take
    usable: int  # the same with what it leaves free, because a prediction may be too low


class Answered(Struct, frozen=True):
    """What evaluate.py answers, where the method writes answers."""

    rows: int
    tokens: int | None  # of an answer, that the recipe wants; None: as many as in training


class Evaluation(Struct, frozen=True):
    """What evaluate.py needs of the GPUs of one node."""

    trained: Held  # with its adapter; the model before training takes as much
    merged: Held | None  # None where nothing is merged
    gpus: int  # of the node, that it may use
    batch_bytes: int  # beside the weights: of rows that are scored, or of answers
    of_reserve_bytes: int  # of what training leaves free, that a whole model takes
    tokens_at_once: int
    answers_at_once: int

    def merged_as(self, stored_again: bool) -> Held | None:
        """The merged model: in the bits of the base where it is stored so again, in the type of the merge elsewhere."""
        return self.trained if stored_again else self.merged


def evaluation_needs(
    architecture: Architecture,
    layout: Layout,
    work: Workload,
    room: GpuRoom,
    gpus: int,
    on_cpu: bool,
    answered: Answered,
) -> Evaluation:
    """Place a model that is scored on a node with `gpus` GPUs: whole where it must not leave as much as training."""
    usable, weights = room.usable, _weights(architecture, layout, work)
    tokens = ON_CPU if on_cpu else _tokens_at_once(architecture, layout, work, room)
    batch = batch_bytes(architecture, layout, work, tokens)

    def held(size: int, packed: bool) -> Held:
        if size + batch <= usable or on_cpu:
            return Held(size, WHOLE)
        spread = _spreads(architecture, layout, work, size, packed, [usable - batch] * gpus)
        return Held(size, SHARED if spread else OFFLOADED)

    trained = held(weights, layout.adapts.quantized)
    merged = held(_unquantized(architecture, layout, work), packed=False) if layout.adapts.merges else None
    models = [model for model in (trained, merged) if model]
    alone = work.method.generates and not on_cpu and all(model.whole for model in models)
    beside = ANSWERS_SHARE * (room.planned - max(model.bytes for model in models)) if alone else 0.0
    writing = answering(work, answered.tokens)
    counts = _counts(work, ceil(answered.rows / gpus) if alone else answered.rows)
    at_once = _answers_at_once(architecture, layout, writing, max(batch, beside), counts)
    return Evaluation(
        trained=trained,
        merged=merged,
        gpus=gpus,
        batch_bytes=max(batch, answering_bytes(architecture, layout, writing, at_once) if alone else 0),
        of_reserve_bytes=0 if on_cpu else max(0, weights + batch - room.planned),
        tokens_at_once=tokens,
        answers_at_once=at_once,
    )


def _spreads(
    architecture: Architecture, layout: Layout, work: Workload, size: int, packed: bool, rooms: list[int]
) -> bool:
    """Whether a model of all these bytes, with a teacher and reward models, finds room with whole layers on each GPU;
    reward models are whole on the first."""
    path, teacher = code_path(layout, work), work.teacher
    others = teacher.params * path.compute if teacher else 0
    judges = round(judge_bytes(work, path))
    models = [modules_of(architecture, size - others - judges, path.compute)]
    models += [modules_of(teacher, others, path.compute)] if teacher else []
    return find_room(models, [rooms[0] - judges, *rooms[1:]], ROOM_TO_PACK if packed else 1.0)


def batch_bytes(architecture: Architecture, layout: Layout, work: Workload, tokens_at_once: int) -> int:
    """What a batch takes of rows that are scored, or one question that is answered, whichever is more.

    A row that is longer than a batch is a batch of its own.
    Its head is applied to as many of its tokens at once as a batch has. These logits are alive twice, as the head gives
    them and without the tokens that nothing is learned from. By then the layers are done and have left their last
    hidden states, but for a teacher's layers, which run beside the student's logits.
    """
    path, tokens = code_path(layout, work), max(tokens_at_once, work.seq_len_tokens)
    layer = _layer(architecture, layout, work, tokens) + tokens * work.seq_len_tokens * _scores(
        architecture, layout, path
    )
    vocabulary = architecture.vocab_size if loss_code(work).to_vocabulary else 1
    logits = vocabulary * (2 * path.compute * tokens_at_once + FP32_BYTES * LOSS_COPIES * LOSSES_AT_ONCE)
    hidden = tokens * path.compute * architecture.hidden_size
    scored = hidden + layer + 2 * logits if work.teacher else max(layer, logits + hidden)
    scored += tokens * path.compute * architecture.cached_features if prefix_tokens(work) else 0  # in its cache
    return max(scored, _answer(architecture, layout, work) if work.method.writes else 0)


def answering(work: Workload, asked_tokens: int | None) -> Workload:
    """The rows with answers of so many tokens, where the method writes answers to all of them."""
    if not work.written_tokens or not asked_tokens:
        return work
    length = work.seq_len_tokens - work.written_tokens + asked_tokens
    return replace(work, seq_len_tokens=length, written_tokens=asked_tokens)


def _counts(work: Workload, rows: int) -> tuple[int, ...]:
    """How many answers may be written at once, where a GPU answers so many rows: up to the first count that has all.

    Behind a soft prompt one: padding would stand between the prompt and the question.
    """
    if work.lora and work.lora.virtual_tokens:
        return (1,)
    if not work.method.generates:
        return SAMPLES_AT_ONCE
    return tuple(count for count in ANSWERS_AT_ONCE if count < 2 * max(1, rows))


def _answers_at_once(
    architecture: Architecture, layout: Layout, work: Workload, room_bytes: float, counts: tuple[int, ...]
) -> int:
    """As many as find room: one at least."""
    taken = {count: answering_bytes(architecture, layout, work, count) for count in counts}
    return max((count for count, size in taken.items() if size <= room_bytes), default=1)


def answering_bytes(architecture: Architecture, layout: Layout, work: Workload, answers: int) -> int:
    """What so many answers take beside the weights: the pass of their prompts, or their last token."""
    kept = answers * _answer(architecture, layout, work)
    if not work.method.generates:
        return kept
    path, longest = code_path(layout, work), work.seq_len_tokens + work.reread_tokens
    prompt = longest - work.written_tokens
    scores = answers * prompt * prompt * _scores(architecture, layout, path)
    prompts = _layer(architecture, layout, work, answers * prompt) + scores
    beside = path.compute * max(beside_cache(shape) for _, shape in architecture.attentions)
    sampled = SAMPLING_COPIES * FP32_BYTES * architecture.vocab_size
    return kept + round(max(prompts, answers * (longest * beside + sampled)))


def _answer(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """Keys and values of a question as long as the longest row, and what its mixers remember."""
    path = code_path(layout, work)
    tokens = work.seq_len_tokens + work.reread_tokens + prefix_tokens(work)
    return tokens * path.compute * architecture.cached_features + state_bytes(architecture, path)


def _layer(architecture: Architecture, layout: Layout, work: Workload, tokens: int) -> int:
    """Of so many tokens, in the forward pass of one layer: of the model that is trained, or of its teacher."""
    path = scoring_path(layout, work)
    own = running_bytes(architecture, work.lora, path, tokens)
    frozen = replace(path, quantized=0.0, rounds_inputs=False, adapter_copy=0)
    return max(own, running_bytes(work.teacher, None, frozen, tokens) if work.teacher else 0)


def _scores(architecture: Architecture, layout: Layout, path: CodePath) -> int:
    """Of a pair of tokens, where attention keeps a number for every head."""
    return architecture.num_heads * (FP32_BYTES + path.compute) if layout.attends.keeps_scores else 0


def _tokens_at_once(architecture: Architecture, layout: Layout, work: Workload, room: GpuRoom) -> int:
    """As many as take a part of the memory, and no more than a whole model leaves of it where that is enough."""
    taken = {tokens: batch_bytes(architecture, layout, work, tokens) for tokens in TOKENS_AT_ONCE}
    weights, share = _weights(architecture, layout, work), BATCH_SHARE * room.usable
    for limit in (room.planned - weights, room.usable - weights, share):
        fits = [tokens for tokens, each in taken.items() if each <= min(limit, share)]
        if fits:
            return max(fits)
    return TOKENS_AT_ONCE[0]


def _weights(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """In the type that is computed in; the linear layers of a quantized base in theirs, an adapter in fp32."""
    count, path = sizes(architecture, work.lora, loss_code(work).to_vocabulary), code_path(layout, work)
    saved = _saved_by_packing(count, path)
    return _unquantized(architecture, layout, work) - saved + (count.adapters + count.mixed) * FP32_BYTES


def stored_bytes(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """The base as it is stored below an adapter, alone."""
    count, path = sizes(architecture, work.lora, loss_code(work).to_vocabulary), code_path(layout, work)
    return architecture.params * path.compute - _saved_by_packing(count, path)


def _saved_by_packing(count: Sizes, path: CodePath) -> int:
    unpacked = count.linear * (path.compute - path.quantized) if path.quantized else 0.0
    return round(unpacked - count.linear_rows * path.row_scale)


def _unquantized(architecture: Architecture, layout: Layout, work: Workload) -> int:
    path, teacher = code_path(layout, work), work.teacher.params if work.teacher else 0
    return (architecture.params + teacher) * path.compute + round(judge_bytes(work, path))
