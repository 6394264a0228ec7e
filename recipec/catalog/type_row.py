"""What a row says of a `model_type` of transformers, beyond what its config.json says: keys, defaults and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from recipec.catalog.architecture import LayerKind, Modules
from recipec.catalog.mixers import Mixer

SPLIT = Modules()


class Key(NamedTuple):
    """A boolean that config.json decides, and the class default for when it does not say."""

    name: str
    default: bool


class MoeType(Struct, frozen=True):
    """How a mixture-of-experts config names its parts."""

    block: str
    count: str = "num_experts"
    count_saved: str = ""  # what save_pretrained of transformers 5 calls it, where that is another name
    per_token: str = "num_experts_per_tok"
    intermediate: str = "moe_intermediate_size"
    shared: str = ""  # key of the shared expert's size
    shared_gate: bool = True  # it stands behind a gate of its own
    shared_count: str = ""  # key of how many experts' width all tokens pass, without a gate
    shared_one: bool = False  # every token passes one more expert, without a gate
    beside: bool = False  # every token also passes the plain feed-forward block, without a gate
    optional: bool = False  # a count of 0 is a model without experts
    switch: Key | None = None  # None: it has experts
    norms: int = 0  # beside those of a layer without experts
    router: str = ""  # a linear module
    router_scales: bool = False  # its inputs are normed and scaled, as is what it gives an expert
    all_run: bool = False  # every expert computes every token, weighted by the router or by 0
    every: Number | None = None  # key of the n of which every n-th layer has experts
    listed: str = ""  # key of the places of the layers with experts, which goes before `every`
    dense_first: str = ""  # key of how many first layers have a plain MLP
    balanced: bool = True  # a loss that TRL runs keeps the load of its experts balanced
    spread: bool = True  # a run with its experts spread over ranks was verified
    sparse_steps: bool = False  # understands decoder_sparse_step and mlp_only_layers
    bias: bool = False
    normalizes: Key | None = None  # None: what the router gives the experts of a token always sums to 1
    dispatched: bool = False  # a run with DeepSpeed-MoE in the place of its block was verified, with equal logits
    gate_up: str = "experts.gate_up_proj"  # the fused parameters, as the block has them
    down: str = "experts.down_proj"
    one_by_one: bool = False  # files hold each expert by itself, and transformers 5 fuses them as it reads
    unbuilt: tuple[str, ...] = ()  # sizes whose parts are not built: they are refused


class Number(NamedTuple):
    """A number that config.json states, and the class default for when it does not."""

    name: str
    default: int


class MixerType(Struct, frozen=True):
    """How the config of a hybrid names its layers without attention, and the shape of what they have instead."""

    shape: type[Mixer]
    layer_type: str  # what layer_types calls these layers
    fields: Mapping[str, Number]  # field of the shape -> its key
    every: Number | None = None  # key of the n of which every n-th layer has attention, where layer_types does not say
    listed: str = ""  # an older key: the places of the layers with attention
    older: Mapping[str, str] = {}  # names of the kinds in layer_types that transformers renames
    optional: bool = False  # where all layers have attention there is no mixer
    flags: Mapping[str, bool | Key] = {}  # other fields of the shape -> the switch that gives them
    expand: Number | None = None  # key of the inner width over the hidden size, which gives the size of a head
    inner: Number | None = None  # key of the inner width itself, which comes before that unless it is null
    built: tuple[Key, ...] = ()  # switches that must be as the class has them: other values are refused


class ChunkType(Struct, frozen=True):
    """How the config of a model names chunks of tokens that attend within themselves, and the layers without: these
    rotate no queries and keys, and scale queries by their place in the row."""

    size: Number
    layer_type: str  # what layer_types calls the layers with chunks
    every: Number  # every n-th layer has none
    rotated: str  # key: for every layer, 1 where it has chunks and 0 where it has none; goes before `every`
    scale: Number  # places after which the scale changes
    scales: Key


class PatternType(Struct, frozen=True):
    """How the config of a model names the kind of every layer, where there may be any number of kinds."""

    kinds: Mapping[str, LayerKind]  # by the name that the list has for them
    key: str = ""  # of the list; without one all layers are of the only kind
    older: Mapping[str, str] = {}  # names in the list that transformers renames
    letters_key: str = ""  # an older key: a text with a letter for each layer
    letters: Mapping[str, str] = {}


class WholeType(Struct, frozen=True):
    """How the config of a model names the heads of its layers without a window, where they differ from the others."""

    head_dim: Number
    kv_heads: str  # key; it holds where `shares_values` is on
    shares_values: Key  # keys and values come from one projection
    by_layer: str  # key of what transformers 5 saves instead of them: layer -> its own sizes
    unbuilt: tuple[Number | Key, ...] = ()  # switches and sizes whose parts are not built: they are refused


class BorrowingType(Struct, frozen=True):
    """How the config of a model names its last layers, which attend with the keys and values of earlier ones."""

    layers: Number  # how many
    widens: Key  # their feed-forward block is twice as wide


class InputsType(Struct, frozen=True):
    """How the config of a model names a second embedding of tokens, a slice of which enters every layer."""

    features: Number  # of a slice; 0: there is none
    vocabulary: Number  # its rows


class ModelType(Struct, frozen=True):
    """One row: class names, module names, and the defaults that transformers fills in."""

    decoder_layer: str
    causal_class: str = ""  # whose base_model_prefix names none of its modules: what TRL finds its decoder by
    stored_buffers: bool = False  # its checkpoint also holds tensors that no optimizer changes
    ties: bool | None = False  # class default of tie_word_embeddings; None: the class ties nothing, whatever that says
    kv_heads_optional: bool = True  # absent num_key_value_heads means one per attention head
    head_dim: int | None = None  # class default; None: hidden_size / num_attention_heads
    qkv_bias: bool | Key = False
    output_bias: bool | Key = False
    mlp_bias: bool | Key = False
    norm_bias: bool = False
    qk_norm: str | None = None
    qk_norm_switch: Key | None = None  # None: it has these norms wherever the row names them
    sinks: bool = False
    output_gate: bool = False  # the query projection also gives a gate for attention's output
    norms_in_fp32: bool = False  # its norms multiply with their weight before they round to the compute type
    softcap: bool = False  # attention scores are soft-capped
    leaks: bool = False  # its mask is built without position ids: examples that share a row attend to each other
    values_normed: bool = False  # a norm without a weight over each value head
    gated: bool = True
    norms: int = 2
    windowed: str = ""  # "always": sliding_window holds; "switch": only with use_sliding_window
    window: int | None = None  # class default of sliding_window
    layers_differ: bool = False  # the class reads layer_types
    full_attention_every: int = 0  # class default of layer_types: every n-th layer has no window
    pattern_key: str = ""  # an older key for the same
    chunks: ChunkType | None = None
    whole: WholeType | None = None
    borrowing: BorrowingType | None = None
    layer_inputs: InputsType | None = None
    intermediate: str = "intermediate_size"  # key of the feed-forward block's width
    adjusts_width: bool = False  # the class makes that width smaller and round, unless block_auto_adjust_ff_dim is off
    modules: Modules = SPLIT
    mixer: MixerType | None = None
    pattern: PatternType | None = None
    moe: MoeType | None = None
    sounds_balanced: bool = False  # its configuration has a loss for the balance of experts that TRL 1.16 cannot run
    scores: bool = True  # transformers has a class of it that scores sequences, with the head `score`
    buffers: bool = False  # its checkpoint holds buffers beside its parameters
    renamed_on_save: bool = False  # save_pretrained writes other names of parameters
    renamed_experts: bool = False  # the same of its experts, where it has any
