"""One step of one rank, taken apart into what the stages are summed from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from recipec.catalog.architecture import Architecture
from recipec.estimate.activations import Activations, activations
from recipec.estimate.codepath import CodePath, code_path
from recipec.estimate.head import Head, head_bytes
from recipec.estimate.ranks import gathered_sizes, narrowed, rank_sizes
from recipec.estimate.scores import Scores, scores_of
from recipec.estimate.sharding import Buffers, buffers
from recipec.estimate.sizes import Sizes
from recipec.estimate.states import States, states
from recipec.estimate.work import Work
from recipec.layout import Layout, Mesh


@dataclass(frozen=True, slots=True)
class Fixed:
    """What does not depend on the batch: shared by all micro batches of a search."""

    sizes: Sizes
    path: CodePath
    layers: Activations
    states: States
    buffers: Buffers


@dataclass(frozen=True, slots=True)
class Depth:
    """The layers of the model by what they leave for the backward pass."""

    layers: int
    recomputed: int  # leave their input
    above: int  # keep everything and run after the last recomputed one
    offloads: bool  # the inputs wait in host memory

    @property
    def kept(self) -> int:
        """Layers that keep everything."""
        return self.layers - self.recomputed


@dataclass(frozen=True, slots=True)
class Step:
    """A `Fixed` with a batch on it."""

    fixed: Fixed
    tokens: int  # per rank and micro step, both answers of a pair counted
    head: Head
    scores: Scores
    gathered_context: int  # keys and values of the whole sequence, while a layer's attention runs
    accumulates: bool
    reference: bool  # a reference scores each batch
    depth: Depth


def step_of(architecture: Architecture, layout: Layout, work: Work) -> Step:
    """Resolve everything that the stages of a step need."""
    choices = (layout.adaptation, layout.precision, layout.strategy, layout.offload)
    fixed = _fixed(architecture, work, layout.mesh, layout.optimizer, *choices)
    architecture = narrowed(architecture, layout.mesh.tensor)
    sequences, context = layout.micro_batch * work.sequences_per_example, layout.mesh.context
    tokens = sequences * work.seq_len_tokens // context
    return Step(
        fixed=fixed,
        tokens=tokens,
        head=head_bytes(work, tokens, architecture, fixed.sizes, fixed.path),
        scores=scores_of(architecture, layout, work, fixed.path),
        gathered_context=2 * fixed.path.compute * architecture.kv_size * tokens * context if context > 1 else 0,
        accumulates=layout.accumulation > 1,
        reference=work.reference != "none",
        depth=_depth(layout, architecture.num_layers),
    )


def _depth(layout: Layout, layers: int) -> Depth:
    recomputed = layout.recomputed(layers)
    above = (layers - 1) % layout.recompute_every if recomputed else layers
    return Depth(layers, recomputed, above, layout.activation_offload)


@lru_cache(maxsize=8192)
def _fixed(architecture: Architecture, work: Work, mesh: Mesh, optimizer: str, *choices: str) -> Fixed:
    adaptation, precision, strategy, offload = choices
    layout = Layout(adaptation, precision, strategy, mesh, offload, 1, 1, True, "sdpa", False, optimizer)
    path, count = code_path(layout, work), rank_sizes(architecture, work.lora, mesh.tensor)
    gathered = gathered_sizes(architecture, work.lora, mesh)
    return Fixed(
        sizes=count,
        path=path,
        layers=activations(narrowed(architecture, mesh.tensor), work.lora, path),
        states=states(layout, work, count, path),
        buffers=buffers(layout, work, architecture.hidden_size, gathered, path),
    )
