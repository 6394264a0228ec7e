"""The shape of a decoder-only transformer, and the exact parameter arithmetic on it."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.layer_parts import (
    ATTENDING,
    ATTENDING_WHOLE,
    MIXING,
    PLAIN,
    Experts,
    LayerInputs,
    LayerKind,
    Modules,
    WholeAttention,
)
from recipec.catalog.mixers import Mixer

LinearShape = tuple[str, int, int]  # module name inside its block, input features, output features
ExpertShape = tuple[str, int, int, int]  # parameter path in its block, experts, input features, output features


PAST_ADAPTERS = "the kernels of its layer take the weight itself, past an adapter"
NO_BLOCK = "it is part of neither attention nor the feed-forward block"  # whose adapters were run and measured
HEAD = "lm_head"  # what implementations call the matrix from states to the vocabulary


class Architecture(Struct, frozen=True):
    """Shape fields of one model; sizes in features, heads, layers and tokens."""

    model_type: str
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tie_embeddings: bool
    max_position: int
    decoder_layer: str
    sliding_window: int | None = None  # tokens; None where it is off
    chunked: bool = False  # the window is a chunk of the sequence: its tokens see none before it
    scale_places: int = 0  # layers without a window scale queries by their place in the row: by steps of so many tokens
    full_attention_every: int = 0  # with a window or a mixer: every n-th layer has none; 0: all layers have it
    attention_at: tuple[int, ...] = ()  # the layers with attention, where they are not one in every so many
    whole: WholeAttention | None = None  # of the layers without a window, where they differ in more than that
    mixer: Mixer | None = None  # of the layers without attention; None where all have attention
    borrowing: int = 0  # the last so many layers attend with the keys and values of earlier ones
    widened: int = 1  # times as wide is the feed-forward block of these layers
    layer_inputs: LayerInputs | None = None
    pattern: tuple[LayerKind, ...] = ()  # the kind of every layer, where it is not one of two behind each other
    attention_bias: bool = False  # on query, key and value
    output_bias: bool = False  # on the attention's output projection
    mlp_bias: bool = False
    norm_bias: bool = False  # LayerNorm instead of RMSNorm
    qk_norm: str | None = None  # one weight per "head" dimension; in "full" per query or key feature; "unit": none
    attention_sinks: bool = False  # one learned logit per head
    attention_dropout: float = 0.0  # share of attention weights that training leaves out, where config.json says so
    attention_gate: bool = False  # the query projection also gives a gate for attention's output
    shares_values: bool = False  # one projection gives keys and values
    values_normed: bool = False  # a norm without a weight over each value head
    gated_mlp: bool = True
    norms_per_layer: int = 2  # over the hidden size, without qk_norm
    moe: Experts | None = None
    modules: Modules = Modules()

    @property
    def query_size(self) -> int:
        """Features of all query heads together."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Features of all key heads together; values have the same."""
        return self.num_kv_heads * self.head_dim

    def windowed(self, layer: int) -> bool:
        """Whether a layer, counted from 0, attends within the window alone."""
        return self.sliding_window is not None and not self._whole(layer)

    def _whole(self, layer: int) -> bool:
        """Whether a layer of a model whose layers differ attends to the whole sequence."""
        if self.attention_at:
            return layer in self.attention_at
        return self.full_attention_every > 0 and (layer + 1) % self.full_attention_every == 0

    def kind(self, layer: int) -> LayerKind:
        """Of which kind a layer, counted from 0, is."""
        if self.pattern:
            return self.pattern[layer]
        if self.mixer is not None:
            return ATTENDING if self._whole(layer) else MIXING
        if self.moe is not None and (layer + 1) % self.moe.every:
            return PLAIN
        kind = ATTENDING_WHOLE if self.whole is not None and self._whole(layer) else ATTENDING
        return replace(kind, borrows=True) if layer >= self.num_layers - self.borrowing else kind

    @property
    def kinds(self) -> tuple[tuple[LayerKind, int], ...]:
        """Every kind of layer that the model has, and how many: those with attention first."""
        return _kinds(self)

    @lru_cache(maxsize=1024)  # noqa: B019 (few models, asked with every candidate)
    def _layers_with(self, part: str) -> int:
        return sum(layers for kind, layers in self.kinds if getattr(kind, part))

    @property
    def mixed_layers(self) -> int:
        """How many layers have the mixer."""
        return self._layers_with("mixer")

    def attending(self, window: int | None) -> Architecture:
        """The model as its layers with this window attend: not itself where heads of the whole sequence differ."""
        return _attending_whole(self) if self.whole and window is None else self

    @property
    def attentions(self) -> tuple[tuple[int, Architecture], ...]:
        """How many layers attend in which heads, as a model of such layers."""
        if self.whole is None:
            return ((self.attention_layers, self),)
        whole = self._layers_with("whole")
        return (self.num_layers - whole, self), (whole, self.attending(None))

    @property
    def cached_features(self) -> int:
        """Features of keys and values that all layers together keep of a token."""
        keep = ((layers, kind) for kind, layers in self.kinds if kind.attention and not kind.borrows)
        return sum(2 * layers * self.attending_in(kind).kv_size for layers, kind in keep)

    def attending_in(self, kind: LayerKind) -> Architecture:
        """The model as its layers of a kind attend."""
        return self.attending(None) if kind.whole else self

    @property
    def attention_layers(self) -> int:
        """How many layers have attention."""
        return self._layers_with("attention")

    @property
    def layers_by_window(self) -> dict[int | None, int]:
        """Window, None for the whole sequence -> how many layers attend so; the narrow one first."""
        if self.mixer:
            return {None: self.attention_layers}
        whole = self.num_layers // self.full_attention_every if self.full_attention_every else 0
        layers = {self.sliding_window: self.num_layers - whole}
        return layers | {None: whole} if whole else layers

    @lru_cache(maxsize=1024)  # noqa: B019
    def linear_shapes(self, kind: LayerKind | None = None) -> tuple[LinearShape, ...]:
        """The linear modules of a decoder layer, without experts and router; of the first kind unless one is given."""
        kind = kind or self.kinds[0][0]
        return self._mixing_shapes(kind) + self._block_shapes(kind) + self._input_shapes()

    @property
    @lru_cache(maxsize=256)  # noqa: B019
    def linear_groups(self) -> tuple[tuple[int, tuple[LinearShape, ...]], ...]:
        """How many layers have which linear modules: of the first kind, plain ones of a mixture, and the others; then
        the one that stands beside the layers."""
        (first, layers), *others = self.kinds
        dense = self.moe.dense_layers if self.moe else 0
        counted = ((layers - dense, first), (dense, replace(first, plain=True)), *((n, kind) for kind, n in others))
        groups = tuple((layers, self.linear_shapes(kind)) for layers, kind in counted if layers)
        return groups + (((1, self._beside_shapes),) if self.layer_inputs else ())

    @property
    def linear_modules(self) -> tuple[str, ...]:
        """The names of all linear modules of its layers, and those of a plain feed-forward block."""
        shapes = (*(shape for _, group in self.linear_groups for shape in group), *self._mlp_shapes(1))
        return tuple(dict.fromkeys(name for name, _, _ in shapes))

    def expert_shapes(self) -> tuple[ExpertShape, ...]:
        """The fused expert parameters of one layer as (name, experts, in, out); empty for a dense model."""
        if self.moe is None:
            return ()
        count, inner = self.moe.count, self.moe.intermediate_size
        taken = (self.moe.gate_up, count, self.hidden_size, inner * (1 + self.gated_mlp))
        return taken, (self.moe.down, count, inner, self.hidden_size)

    @property
    def attention_modules(self) -> tuple[str, ...]:
        """The linear modules of attention, and of what stands in its place, that take an adapter."""
        mixing = self.mixer.linear_shapes(self.hidden_size) if self.mixer else ()
        names = dict.fromkeys((*self.modules.qkv, self.modules.output, *(name for name, _, _ in mixing)))
        return tuple(name for name in names if name not in self.unadapted)

    @property
    def unadapted(self) -> dict[str, str]:
        """The linear modules that take no adapter, and why."""
        mixing = self.mixer.unadapted if self.mixer else ()
        entering = self.layer_inputs.modules if self.layer_inputs else ()
        return dict.fromkeys(mixing, PAST_ADAPTERS) | dict.fromkeys(entering, NO_BLOCK)

    @property
    def adaptable(self) -> tuple[str, ...]:
        """The linear modules that may have an adapter: of a mixture of experts those of attention alone."""
        if self.moe:
            return self.attention_modules
        names = dict.fromkeys(name for _, shapes in self.linear_groups for name, _, _ in shapes)
        return tuple(name for name in names if name not in self.unadapted)

    @property
    def named_linear(self) -> tuple[str, ...]:
        """Those of a dense model by name, where PEFT's word for all of them takes one that has no adapter."""
        return self.adaptable if self.unadapted else ()

    @property
    def expert_parameters(self) -> tuple[str, ...]:
        """The fused parameters of the experts; none in a dense model."""
        return tuple(name for name, *_ in self.expert_shapes())

    @property
    def balanced(self) -> bool:
        """Whether a loss can keep the load of its experts balanced; False for a dense model."""
        return self.moe is not None and self.moe.balanced

    @property
    def sparse_layers(self) -> int:
        """Layers with experts where the model has any; all layers with a feed-forward block of a dense model."""
        if self.moe is None:
            return self._layers_with("block")
        return sum(n for kind, n in self.kinds if kind.block and not kind.plain) - self.moe.dense_layers

    def layer_params(self, kind: LayerKind | None = None) -> int:
        """Parameters of a layer of a kind, the first unless another is given: with experts where the model has any."""
        return self._kind_params(kind or self.kinds[0][0], self.moe.count if self.moe else 0)

    @property
    def embedding_params(self) -> int:
        """Parameters of the token embedding, and of the output head unless it is tied to it."""
        return self.vocab_size * self.hidden_size * (1 if self.tie_embeddings else 2)

    @property
    def params(self) -> int:
        """All parameters."""
        return _params(self)

    @property
    def active_params(self) -> int:
        """Parameters that one token passes through, embeddings of the vocabulary included."""
        return self._total(self.moe.per_token if self.moe else 0)

    @property
    def computed_params(self) -> int:
        """Parameters that compute one token, embeddings of the vocabulary included: all experts where all run."""
        return self._total(self.moe.computed if self.moe else 0)

    @property
    def second_embedding(self) -> int:
        """Parameters of the embedding whose slices enter the layers: they are looked up, and multiply nothing."""
        return self.vocab_size * self.slices

    @property
    def slices(self) -> int:
        """Features of the slices of all layers."""
        return self.num_layers * self.layer_inputs.features if self.layer_inputs else 0

    @property
    def _norm_params(self) -> int:
        return self.hidden_size * (2 if self.norm_bias else 1)

    def _attention_params_of(self, borrows: bool) -> int:
        """Of layers with keys and values of their own, or of layers that borrow them."""
        widths = self._qkv_widths[:1] if borrows else self._qkv_widths
        biases = sum(widths) * self.attention_bias + self.hidden_size * self.output_bias
        normed = (self.head_dim, self.head_dim) if self.qk_norm == "head" else (self.query_size, self.kv_size)
        norms = sum(normed[:1] if borrows else normed) * (self.qk_norm in ("head", "full"))
        return _weights(self._attention_shapes(borrows)) + biases + norms + self.num_heads * self.attention_sinks

    def _kind_params(self, kind: LayerKind, counted: int) -> int:
        """Parameters of a layer with `counted` of the experts where it has any."""
        mixing = self._mixer_params if kind.mixer else 0
        if kind.attention:
            mixing += self.attending_in(kind)._attention_params_of(kind.borrows)
        experts = self._experts_params(counted) if kind.block and not kind.plain else 0
        norms = self.norms_per_layer + (self.layer_inputs is not None)
        inputs = _weights(self._input_shapes())
        return mixing + self._norm_params * norms + self._block_params(kind) + experts + inputs

    @property
    def _mixer_params(self) -> int:
        assert self.mixer is not None
        return _weights(self.mixer.linear_shapes(self.hidden_size)) + self.mixer.other_params(self.hidden_size)

    def _block_params(self, kind: LayerKind) -> int:
        shapes = self._block_shapes(kind)
        return _weights(shapes) + self.mlp_bias * sum(out for _, _, out in shapes)

    def _experts_params(self, counted: int) -> int:
        """Router plus `counted` experts."""
        if self.moe is None:
            return 0
        router = self.moe.count * (self.hidden_size + self.moe.bias)
        if self.moe.router:  # its weight is one of the linear modules; its scales, of what it takes and of each expert
            router = (self.hidden_size + self.moe.count) * self.moe.router_scales
        router += self.moe.norms * self._norm_params
        one = sum((inputs + self.moe.bias) * outputs for _, _, inputs, outputs in self.expert_shapes())
        return router + counted * one

    def _total(self, counted: int) -> int:
        layers = sum(number * self._kind_params(kind, counted) for kind, number in self.kinds)
        if self.moe and self.moe.dense_layers:  # of the first kind
            first = self.kinds[0][0]
            plain = self._kind_params(replace(first, plain=True), counted)
            layers += self.moe.dense_layers * (plain - self._kind_params(first, counted))
        beside = _weights(self._beside_shapes) + self.layer_inputs.features if self.layer_inputs else 0  # and a norm
        return self.embedding_params + layers + self._norm_params + beside

    @property
    def _qkv_widths(self) -> tuple[int, ...]:
        """Of what gives queries, keys, and values where they have a projection of their own."""
        queries = self.query_size * (2 if self.attention_gate else 1)
        return (queries, *[self.kv_size] * (1 if self.shares_values else 2))

    def _mixing_shapes(self, kind: LayerKind) -> tuple[LinearShape, ...]:
        """What mixes tokens in a layer of a kind."""
        attention = self.attending_in(kind)._attention_shapes(kind.borrows) if kind.attention else ()
        return attention + (self.mixer.linear_shapes(self.hidden_size) if kind.mixer and self.mixer else ())

    def _block_shapes(self, kind: LayerKind) -> tuple[LinearShape, ...]:
        """The feed-forward block of a layer of a kind, or what every token passes beside experts."""
        if not kind.block:
            return ()
        if self.moe is None or kind.plain:
            return self._mlp_shapes(self.inner_size(kind))
        shared = self.moe.shared_intermediate_size
        gate = (("shared_expert_gate", self.hidden_size, 1),) if self.moe.shared_gate else ()
        router = ((self.moe.router, self.hidden_size, self.moe.count),) if self.moe.router else ()
        return (self._mlp_shapes(shared) + gate if shared else ()) + router

    def inner_size(self, kind: LayerKind) -> int:
        """Features between the products of a plain feed-forward block in a layer of a kind."""
        return self.intermediate_size * (self.widened if kind.borrows else 1)

    def _input_shapes(self) -> tuple[LinearShape, ...]:
        """What takes a layer's slice of the second embedding."""
        if self.layer_inputs is None:
            return ()
        hidden, features = self.hidden_size, self.layer_inputs.features
        return (self.layer_inputs.gate, hidden, features), (self.layer_inputs.output, features, hidden)

    @property
    def beside_modules(self) -> tuple[str, ...]:
        """The linear modules that stand beside the layers."""
        return tuple(name for name, _, _ in self._beside_shapes)

    @property
    def _beside_shapes(self) -> tuple[LinearShape, ...]:
        return ((self.layer_inputs.projection, self.hidden_size, self.slices),) if self.layer_inputs else ()

    def _attention_shapes(self, borrows: bool = False) -> tuple[LinearShape, ...]:
        names, widths = self.modules.qkv, self._qkv_widths
        inputs = _merge(names[:1], self.hidden_size, widths[:1]) if borrows else _merge(names, self.hidden_size, widths)
        return (*inputs, (self.modules.output, self.query_size, self.hidden_size))

    def _mlp_shapes(self, inner: int) -> tuple[LinearShape, ...]:
        widths = (inner, inner) if self.gated_mlp else (inner,)
        inputs = _merge(self.modules.mlp_in, self.hidden_size, widths)
        return (*inputs, (self.modules.mlp_out, inner, self.hidden_size))


@lru_cache(maxsize=256)
def _attending_whole(shape: Architecture) -> Architecture:
    whole = shape.whole
    assert whole is not None
    modules = replace(shape.modules, qkv=shape.modules.qkv[:2]) if whole.shares_values else shape.modules
    heads = {"num_kv_heads": whole.num_kv_heads, "head_dim": whole.head_dim, "shares_values": whole.shares_values}
    return replace(shape, whole=None, sliding_window=None, modules=modules, **heads)


@lru_cache(maxsize=256)  # a plan asks for them with every candidate
def _params(shape: Architecture) -> int:
    return shape._total(shape.moe.count if shape.moe else 0) + shape.second_embedding


@lru_cache(maxsize=256)
def _kinds(shape: Architecture) -> tuple[tuple[LayerKind, int], ...]:
    counts = Counter(map(shape.kind, range(shape.num_layers))).items()
    return tuple(sorted(counts, key=lambda found: _order(found[0])))


def _order(kind: LayerKind) -> tuple[bool, ...]:
    """Attention comes first, and experts before plain blocks."""
    return not kind.attention, kind.borrows, kind.whole, kind.block, kind.plain


def _merge(names: tuple[str, ...], inputs: int, widths: tuple[int, ...]) -> tuple[LinearShape, ...]:
    """One module per name; a single name stands for the fused projection."""
    if len(names) == 1:
        return ((names[0], inputs, sum(widths)),)
    return tuple((name, inputs, width) for name, width in zip(names, widths, strict=True))


def _weights(shapes: tuple[LinearShape, ...]) -> int:
    return sum(inputs * outputs for _, inputs, outputs in shapes)
