"""What the layers of a decoder are made of: names of modules, kinds of layers, experts, and what enters every layer."""

from __future__ import annotations

from msgspec import Struct


class Modules(Struct, frozen=True):
    """What an implementation calls its linear modules; one name where projections are fused."""

    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    output: str = "o_proj"
    mlp_in: tuple[str, ...] = ("gate_proj", "up_proj")
    mlp_out: str = "down_proj"
    embedding: str = "embed_tokens"  # the matrix of the vocabulary; where the output has another, that is HEAD


# How files hold experts where that is not as the model has them.
ONE_BY_ONE = "one by one"  # transformers 5 fuses them
MXFP4 = "mxfp4"  # 4-bit floats in blocks with a scale; transformers dequantizes them for training


class Experts(Struct, frozen=True):
    """The mixture-of-experts part of a layer. Experts are fused 3-D parameters (transformers 5), not linear modules."""

    count: int
    per_token: int
    intermediate_size: int
    block: str  # class name of the MoE block: the leaf module for ZeRO-3
    gate_up: str = "experts.gate_up_proj"  # where the block keeps the fused parameters
    down: str = "experts.down_proj"
    shared_intermediate_size: int = 0  # a gated MLP beside the experts, which every token passes
    shared_gate: bool = True  # a sigmoid gate weights what it gives
    dense_layers: int = 0  # layers with a plain MLP instead of experts
    bias: bool = False  # on expert projections and router
    balanced: bool = True  # a loss can keep the load of the experts balanced
    norms: int = 0  # over the hidden size, beside those of a layer without experts
    router: str = ""  # a linear module; empty: a parameter of its own
    router_scales: bool = False  # with scales before and behind it
    all_run: bool = False  # every expert computes every token, weighted by the router or by 0
    every: int = 1  # every n-th layer has experts, the others a plain MLP
    normalizes: bool = True  # what the router gives the experts of a token sums to 1
    dispatched: bool = False  # DeepSpeed-MoE computes the same where no token is dropped
    stored: str = ""  # ONE_BY_ONE or MXFP4 in the model's files; "": as the model has them

    @property
    def computed(self) -> int:
        """How many experts compute a token."""
        return self.count if self.all_run else self.per_token


class LayerKind(Struct, frozen=True):
    """What the layers of one kind have. Layers that differ in a window, or in experts behind plain ones, are alike."""

    attention: bool = True
    mixer: bool = False  # the model's mixer, in place of attention or beside it
    whole: bool = False  # it attends to the whole sequence in heads of its own
    block: bool = True  # a feed-forward block, or experts where the model has any
    plain: bool = False  # the feed-forward block in a model that has experts
    borrows: bool = False  # it attends with the keys and values of an earlier layer


ATTENDING, MIXING = LayerKind(), LayerKind(attention=False, mixer=True)  # each with a feed-forward block behind it
ATTENDING_WHOLE, PLAIN = LayerKind(whole=True), LayerKind(plain=True)


class WholeAttention(Struct, frozen=True):
    """Attention to the whole sequence in other heads than the layers with a window have."""

    num_kv_heads: int
    head_dim: int
    shares_values: bool  # one projection gives keys and values


class LayerInputs(Struct, frozen=True):
    """A second embedding of tokens: a slice of it enters every layer through a gate. A projection of the first
    embedding is added to all slices before the layers run."""

    features: int  # of a slice
    gate: str = "per_layer_input_gate"
    output: str = "per_layer_projection"
    projection: str = "per_layer_model_projection"  # beside the layers

    @property
    def modules(self) -> tuple[str, ...]:
        """Its linear modules."""
        return self.gate, self.output, self.projection
