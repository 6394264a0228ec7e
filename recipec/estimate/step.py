"""One step of one rank, taken apart into what its moments are summed from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.method import POLICY, REFERENCE, TEACHER, Pass
from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import Activations, kinds_of
from recipec.estimate.codepath import CodePath, code_path
from recipec.estimate.entering import Entering, entering
from recipec.estimate.experts import Built, built
from recipec.estimate.head import Head, LossCode, loss_code
from recipec.estimate.magnitudes import measuring
from recipec.estimate.new_rows import copied_embedding, copied_head
from recipec.estimate.ranks import dispatched_sizes, gathered_sizes, narrowed, rank_sizes
from recipec.estimate.scores import Scores, kept_shares, scores_of
from recipec.estimate.sharding import Buffers, Gathered, buffers
from recipec.estimate.sizes import Sizes
from recipec.estimate.states import States, states
from recipec.estimate.teacher import Teacher, teacher_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout


class Fixed(Struct, frozen=True):
    """What does not depend on the batch: shared by all micro batches of a search."""

    sizes: Sizes
    path: CodePath
    kinds: tuple[Activations, ...]  # of every kind of layer, in the order of `Architecture.kinds`
    built: Built
    measuring: int  # bytes while the weights of a module are built to measure them (DoRA)
    copied: int  # bytes of the embedding's copy in which trained rows are put, and of its gradient
    new_rows: int  # that are put into it
    states: States
    buffers: Buffers
    resident: dict[str, float]  # terms that are there at all times
    accumulating: dict[str, float]  # the same with the gradients of earlier micro steps
    teacher: Teacher | None
    code: LossCode
    sequences: int  # per example, of the pass that is learned from
    scorings: tuple[tuple[Pass, bool], ...]  # the other passes, and whether they run before it
    once: tuple[Pass, ...]  # passes of the reference that run before training
    scored: float  # sequences that policy and reference score without a gradient, per sequence learned from
    taught: float  # the same of the teacher
    weight_passes: float  # over the weights of policy and reference, without recomputation

    @property
    def layers(self) -> Activations:
        """Of a layer of the first kind."""
        return self.kinds[0]


class Depth(Struct, frozen=True):
    """The layers of the model by what they leave for the backward pass."""

    layers: int
    of_kinds: tuple[int, ...]  # how many of them are of each kind
    shares: tuple[float, ...]  # of each kind among those that keep everything
    recomputed: int  # leave their input
    above: int  # keep everything and run after the last recomputed one
    offloads: bool  # the inputs wait in host memory

    @property
    def kept(self) -> int:
        """Layers that keep everything."""
        return self.layers - self.recomputed


class Batch(Struct, frozen=True):
    """The sequences of one pass."""

    tokens: int  # per rank and micro step, all sequences of an example counted
    scores: Scores
    gathered_context: int  # keys and values of the whole sequence, while a layer's attention runs
    mlp: float  # bytes while a layer's feed-forward block runs that saves nothing
    attention: float  # the same of its attention
    entering: Entering

    def layer(self, built: int = 0) -> float:
        """Bytes while a layer runs that saves nothing, with so many of experts' weights built from adapters."""
        return max(max(self.mlp + built, self.attention) + self.entering.held, self.entering.making)


class Scoring(Struct, frozen=True):
    """A pass without a gradient, in bytes."""

    model: str  # POLICY, REFERENCE or TEACHER
    tokens: int  # no bytes
    before: bool  # it runs before the pass that is learned from, whose activations do not exist yet
    layer: float
    head: float
    leaves: int  # what it hands to the loss, until that is differentiated
    masks: int
    cast: float  # of the policy's weights, where one autocast is around both passes
    gathered: Gathered
    in_evaluation: Gathered


class Step(Struct, frozen=True):
    """A `Fixed` with a batch on it."""

    fixed: Fixed
    tokens: int  # that are learned from, per rank and micro step
    batch: Batch  # of the pass that is learned from
    scores: Scores  # of its attention
    head: Head
    accumulates: bool
    scorings: tuple[Scoring, ...]
    once: tuple[Scoring, ...]  # before training, when neither gradients nor optimizer states exist
    depth: Depth

    @property
    def kept(self) -> float:
        """Bytes that a layer keeps which keeps everything: their mean."""
        kinds = zip(self.depth.shares, self.fixed.kinds, strict=True)
        saved = sum(share * each.saved for share, each in kinds)
        saved -= 0 if self.depth.recomputed else self.fixed.layers.ungraded / self.depth.layers
        return self.tokens * saved + self.scores.kept + self.fixed.built.kept

    @property
    def saved_by_layers(self) -> float:
        """Bytes that all layers save, kept or recomputed."""
        kinds = zip(self.depth.of_kinds, self.fixed.kinds, self.scores.of_kinds, strict=True)
        return sum(layers * (self.tokens * each.saved + scores) for layers, each, scores in kinds)


def step_of(architecture: Architecture, layout: Layout, work: Workload) -> Step:
    """Resolve everything that the moments of a step need."""
    fixed = fixed_of(architecture, layout, work)
    architecture = narrowed(architecture, layout.mesh.tensor)
    batch = _batch(architecture, layout, work, fixed.path, fixed.kinds, fixed.sequences)
    head = _head(batch.tokens, architecture, fixed)

    def scoring(part: Pass, before: bool) -> Scoring:
        if part.model == TEACHER:
            return _by_teacher(part, before, layout, work, fixed)
        if part.model not in (POLICY, REFERENCE):
            raise ValueError(f"method {work.method.name}: what a pass of the {part.model} takes is not known")
        if part.sequences == fixed.sequences:
            return _scoring(part, before, batch, head, layout, fixed)
        other = _batch(architecture, layout, work, fixed.path, fixed.kinds, part.sequences)
        return _scoring(part, before, other, _head(other.tokens, architecture, fixed), layout, fixed)

    return Step(
        fixed=fixed,
        tokens=batch.tokens,
        batch=batch,
        scores=batch.scores,
        head=head,
        accumulates=layout.accumulation > 1,
        scorings=tuple(scoring(part, before) for part, before in fixed.scorings),
        once=tuple(scoring(part, True) for part in fixed.once),
        depth=_depth(layout, architecture),
    )


# What no part of Fixed depends on, so that layouts that differ in these alone share one.
OF_BATCHES = {
    "micro_batch": 1,
    "accumulation": 1,
    "attention": "sdpa",
    "packing": False,
    "served_by": 0,
    "checkpointing": True,
    "recompute_every": 1,
    "activation_offload": False,
}


def fixed_of(architecture: Architecture, layout: Layout, work: Workload) -> Fixed:
    """What all micro batches of a layout share, and all ways to recompute its layers."""
    return fixed_by(architecture, replace(layout, **OF_BATCHES), work)


def _batch(
    architecture: Architecture,
    layout: Layout,
    work: Workload,
    path: CodePath,
    kinds: tuple[Activations, ...],
    sequences: int,
) -> Batch:
    """So many sequences of every example."""
    sequences, context = layout.micro_batch * sequences, layout.mesh.context
    tokens = -(-sequences * work.seq_len_tokens // context)  # a rank has one at least
    scores = scores_of(architecture, layout, work, path, sequences)
    widest = max(shape.kv_size for _, shape in architecture.attentions)
    gathered = 2 * path.compute * widest * tokens * context if context > 1 else 0
    held = [(scores.forward + gathered) * kind.attention for kind, _ in architecture.kinds]
    attention = max(each.attention * tokens + holds for each, holds in zip(kinds, held, strict=True))
    lora = work.lora if architecture is not work.teacher else None
    entered = entering(architecture, lora, path, tokens, layout.checkpointing)
    return Batch(tokens, scores, gathered, max(each.forward for each in kinds) * tokens, attention, entered)


def _head(tokens: int, architecture: Architecture, fixed: Fixed) -> Head:
    if fixed.copied:
        return copied_head(fixed.code, tokens, architecture, fixed.new_rows, fixed.path)
    trains = 0 if fixed.sizes.adapters else fixed.sizes.embedding
    return fixed.code.needs(tokens, architecture, trains, fixed.path)


def policy_layer(batch: Batch, fixed: Fixed) -> float:
    """Bytes while a layer of the policy runs that saves nothing: where weights are measured, that or adding outputs."""
    added = batch.tokens * fixed.layers.outputs
    return batch.layer(fixed.built.kept) + max(added, fixed.measuring - batch.mlp / 2)


def _scoring(part: Pass, before: bool, batch: Batch, head: Head, layout: Layout, fixed: Fixed) -> Scoring:
    """A pass of the policy itself, or of its reference."""
    alone, beside = fixed.buffers.forward, fixed.buffers.reference
    copied = part.model != POLICY and layout.adapts.copies_reference
    return Scoring(
        model=part.model,
        tokens=batch.tokens,
        before=before,
        layer=policy_layer(batch, fixed) if part.model == POLICY else batch.layer(),
        head=head.evaluation,
        leaves=0,
        masks=batch.scores.masks,
        cast=0,
        gathered=alone if before and not copied else beside,
        in_evaluation=beside if copied else alone,
    )


def _by_teacher(part: Pass, before: bool, layout: Layout, work: Workload, fixed: Fixed) -> Scoring:
    """Of its last hidden states those of the learned tokens are copied and kept."""
    teacher = fixed.teacher
    assert teacher is not None
    batch = _batch(teacher.architecture, layout, work, teacher.path, teacher.kinds, part.sequences)
    states = teacher.path.compute * teacher.architecture.hidden_size * batch.tokens
    gathered = teacher.buffers.beside(0.0 if before else fixed.buffers.held)
    return Scoring(
        model=part.model,
        tokens=batch.tokens,
        before=before,
        layer=batch.layer(),
        head=2 * states,
        leaves=states,
        masks=batch.scores.masks,
        cast=fixed.path.compute * fixed.sizes.cast_by_layers if fixed.path.autocast_copies and not before else 0,
        gathered=gathered,
        in_evaluation=gathered,
    )


def _depth(layout: Layout, architecture: Architecture) -> Depth:
    layers, shares = architecture.num_layers, kept_shares(architecture, layout.recompute_interval)
    recomputed = layout.recomputed(layers)
    above = (layers - 1) % layout.recompute_every if recomputed else layers
    of_kinds = tuple(number for _, number in architecture.kinds)
    return Depth(layers, of_kinds, shares, recomputed, above, layout.activation_offload)


@lru_cache(maxsize=8192)
def fixed_by(architecture: Architecture, layout: Layout, work: Workload) -> Fixed:
    """The same by a layout whose OF_BATCHES count for nothing."""
    mesh, precomputes = layout.mesh, layout.precomputes
    path, code, method = code_path(layout, work), loss_code(work), work.method
    count = rank_sizes(architecture, work.lora, mesh.tensor, code.to_vocabulary)
    if work.capacity_factor:
        count = dispatched_sizes(architecture, work.lora, mesh, code.to_vocabulary)
    gathered = gathered_sizes(architecture, work.lora, mesh, code.to_vocabulary)
    teacher = teacher_of(work.teacher, layout, path)
    held = states(layout, work, count, path, teacher)
    added = buffers(layout, work, architecture.hidden_size, gathered, path)
    resident = {**held.terms, "communication_buffers": added.idle}
    once = tuple(part for part in method.scorings if precomputes and part.model == REFERENCE)
    others = tuple(found for found in _others(method.passes) if found[0] not in once)
    return Fixed(
        sizes=count,
        path=path,
        kinds=kinds_of(narrowed(architecture, mesh.tensor), work.lora, path),
        built=built(architecture, work.lora, path),
        measuring=measuring(architecture, work.lora, path),
        copied=copied_embedding(architecture, work.lora, path),
        new_rows=work.lora.new_rows if work.lora else 0,
        states=held,
        buffers=added,
        resident=resident,
        accumulating=resident | {"gradients": held.accumulated},
        teacher=teacher,
        code=code,
        sequences=method.sequences_per_example,
        scorings=others,
        once=once,
        scored=method.scored(*([POLICY] if once else [POLICY, REFERENCE])) / work.answer_passes,
        taught=method.scored(TEACHER),
        weight_passes=2 + sum(part.model != TEACHER for part, _ in others) / work.answer_passes,
    )


def _others(passes: tuple[Pass, ...]) -> Iterator[tuple[Pass, bool]]:
    """The passes without a gradient, and whether each runs before the one that has it."""
    before = True
    for part in passes:
        before = before and not part.gradient
        if not part.gradient:
            yield part, before
