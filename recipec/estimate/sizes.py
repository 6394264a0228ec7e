"""How many parameters of each kind a run has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from recipec.axes import Method
from recipec.catalog.architecture import Architecture, LinearShape
from recipec.estimate.bottlenecks import bottleneck_matrices, bottleneck_params, frozen_behind
from recipec.estimate.experts import adapted_experts, expert_adapter_params
from recipec.estimate.new_rows import new_rows
from recipec.estimate.scales import scale_params
from recipec.estimate.virtual import encoder_weights, virtual_matrices, virtual_params
from recipec.estimate.workload import LoraShape

_Matrices = tuple[int, int, int, int]  # how many parameters, matrices in each, rows and columns


class Sizes(Struct, frozen=True):
    """Parameter counts of a model and of the adapters on it."""

    params: int
    trainable: int
    adapters: int
    originals: int  # rows of the embedding as they were before they trained, which PEFT keeps beside the adapters
    mixed: int  # of the frozen adapters that are mixed, which a save has
    linear: int  # weights that are quantised: the layers' linear modules, not experts, head or embedding
    linear_rows: int  # rows of their matrices
    layer: int  # the largest decoder layer (of those with experts) with its adapters
    layer_linear: int  # the quantisable part of it
    layer_cast: int  # the part of it that autocast copies: linear modules, and experts in batched products
    gathered_layer: int  # the mean of two layers behind each other, which are gathered together: of the largest two
    running_layer: int  # the layer that is gathered and still in its buffer while it runs
    embedding: int  # one vocabulary matrix
    second: int  # the embedding whose slices enter the layers
    head: int  # the output matrix where it is not the embedding itself
    tied: bool  # the embedding is the output matrix too
    largest_linear: int
    cast_by_layers: int  # parameters that autocast copies, trained or mixed: no norms, biases, fused experts
    largest: int  # the largest trained parameter; all experts of a layer are one
    factors: int  # rows and columns of the trained matrices, and what is no matrix
    elsewhere: int = 0  # of all parameters, those of experts that other ranks have (DeepSpeed-MoE)


@lru_cache(maxsize=1024)  # all layouts of an adaptation have the same
def sizes(architecture: Architecture, lora: LoraShape | None, to_vocabulary: bool) -> Sizes:
    """Count what trains, what is frozen and what can be quantised.

    `to_vocabulary`: the model ends in a matrix of the vocabulary; a scalar head of one row is not counted.
    """
    groups, on_experts = architecture.linear_groups, expert_adapter_params(architecture, lora)
    in_products = sum(layers * _adapter_params(shapes, lora) for layers, shapes in groups)
    vectors = scale_params(architecture.linear_shapes(), architecture.modules.mlp_out, lora)
    virtual = virtual_params(architecture, lora)
    adapters = in_products + on_experts * architecture.sparse_layers + vectors * architecture.num_layers + virtual
    rows_trained = sum(matrices * rows * columns for matrices, rows, columns in new_rows(architecture, lora))
    adapters += rows_trained
    mixed = frozen_behind(architecture, lora)
    copied = in_products + mixed + encoder_weights(architecture, lora) if lora else _cast(architecture)
    layer, layer_linear = max(_layers(architecture, lora))
    gathered = _gathered(architecture, lora, layer) + on_experts + vectors
    embedding = architecture.vocab_size * architecture.hidden_size
    tied = architecture.tie_embeddings and to_vocabulary
    head = 0 if tied or not to_vocabulary else embedding
    params = architecture.params - architecture.embedding_params + embedding + head
    trainable = params if lora is None else adapters
    matrices = tuple(_matrices(architecture, lora, 2 if head else 1))
    return Sizes(
        params=params,
        trainable=trainable,
        adapters=adapters,
        originals=rows_trained,
        mixed=mixed,
        linear=sum(layers * _weights(shapes) for layers, shapes in groups),
        linear_rows=sum(layers * outputs for layers, shapes in groups for _, _, outputs in shapes),
        layer=layer + on_experts + vectors,
        layer_linear=layer_linear,
        layer_cast=layer_linear + (_experts_of_a_layer(architecture) if _casts_experts(architecture) else 0),
        gathered_layer=gathered,
        running_layer=layer + on_experts + vectors if _sparse_between(architecture) else gathered,
        embedding=embedding,
        second=architecture.second_embedding,
        head=head,
        tied=tied,
        largest_linear=max(_weights((shape,)) for _, shapes in groups for shape in shapes),
        cast_by_layers=copied,
        largest=max((each * rows * columns for _, each, rows, columns in matrices), default=0),
        factors=trainable + sum(n * each * (rows + columns - rows * columns) for n, each, rows, columns in matrices),
    )


def trainable_params(architecture: Architecture, lora: LoraShape | None, method: Method) -> int:
    """Exactly how many parameters train, with a head of scores that comes with the method."""
    count = sizes(architecture, lora, to_vocabulary=not method.new_head)
    hidden = architecture.hidden_size
    return count.trainable + (hidden if method.new_head else 0) + (hidden + 1 if method.has_value_head else 0)


def _layers(architecture: Architecture, lora: LoraShape | None) -> Iterator[tuple[int, int]]:
    """Parameters of a layer of each kind, adapters included, and the quantisable part."""
    for kind, _ in architecture.kinds:
        shapes = architecture.linear_shapes(kind)
        yield architecture.layer_params(kind) + _adapter_params(shapes, lora), _weights(shapes)


def _gathered(architecture: Architecture, lora: LoraShape | None, layer: int) -> int:
    """A large layer may stand beside small ones in a pattern, and where one in several has experts; elsewhere layers
    are about as large as the largest."""
    if not architecture.pattern and not _sparse_between(architecture):
        return layer
    each = dict(zip((kind for kind, _ in architecture.kinds), _layers(architecture, lora), strict=True))
    layers = [each[architecture.kind(layer)][0] for layer in range(architecture.num_layers)]
    return max((a + b) // 2 for a, b in pairwise(layers)) if layers[1:] else layer


def _sparse_between(architecture: Architecture) -> bool:
    """Whether layers with experts stand between plain ones."""
    return architecture.moe is not None and architecture.moe.every > 1


def _matrices(architecture: Architecture, lora: LoraShape | None, of_vocabulary: int) -> Iterator[_Matrices]:
    """Trained parameters of two dimensions and more."""
    moe, hidden, sparse = architecture.moe, architecture.hidden_size, architecture.sparse_layers
    linear = [(layers, *shape) for layers, shapes in architecture.linear_groups for shape in shapes]
    for layers, name, inputs, outputs in linear:
        if lora is None:
            yield layers, 1, outputs, inputs
        elif lora.adapts(name):
            yield from ((layers, 1, lora.rank, inputs), (layers, 1, outputs, lora.rank))
        elif name in lora.scaled:
            yield layers, 1, *((1, inputs) if name == architecture.modules.mlp_out else (outputs, 1))
        else:
            yield from ((layers, 1, *shape) for shape in bottleneck_matrices([(name, inputs, outputs)], lora))
    for _, count, inputs, outputs in adapted_experts(architecture, lora):
        rank = count * (lora.expert_rank if lora else 0)  # of all experts side by side
        yield from ((sparse, 1, rank, inputs), (sparse, 1, outputs, rank))
    yield from ((1, 1, rows, columns) for rows, columns in virtual_matrices(architecture, lora))
    yield from ((matrices, 1, rows, columns) for matrices, rows, columns in new_rows(architecture, lora))
    if lora is None:
        yield of_vocabulary, 1, architecture.vocab_size, hidden
        if architecture.layer_inputs:
            yield 1, 1, architecture.vocab_size, architecture.slices
        yield from ((sparse, count, outputs, inputs) for _, count, inputs, outputs in architecture.expert_shapes())
        if moe and not moe.router:  # one that is a linear module is among them
            yield sparse, 1, moe.count, hidden


def _cast(architecture: Architecture) -> int:
    """Parameters of the layers but for fused experts whose grouped product autocast leaves alone."""
    left = 0 if _casts_experts(architecture) else architecture.sparse_layers * _experts_of_a_layer(architecture)
    return architecture.params - architecture.embedding_params - architecture.second_embedding - left


def _casts_experts(architecture: Architecture) -> bool:
    """Whether autocast casts experts: those that all run are batched matrix products."""
    return architecture.moe is not None and architecture.moe.all_run


def _experts_of_a_layer(architecture: Architecture) -> int:
    return sum(count * inputs * outputs for _, count, inputs, outputs in architecture.expert_shapes())


def _adapter_params(shapes: tuple[LinearShape, ...], lora: LoraShape | None) -> int:
    if lora is None:
        return 0
    low_rank = sum(lora.rank * (i + o) + lora.magnitudes * o for name, i, o in shapes if lora.adapts(name))
    return low_rank + bottleneck_params(shapes, lora)


def _weights(shapes: tuple[LinearShape, ...]) -> int:
    return sum(inputs * outputs for _, inputs, outputs in shapes)
