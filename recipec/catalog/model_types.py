"""What each supported `model_type` of transformers 5.23 is made of, beyond what its config.json says.

Checked 2026-11-20 against the modelling and configuration sources of transformers 5.23.0; a test builds every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from recipec.catalog.architecture import Modules
from recipec.catalog.mixers import GatedDeltaNet, Mixer, ShortConvolution

_SPLIT = Modules()


class Key(NamedTuple):
    """A boolean that config.json decides, and the class default for when it does not say."""

    name: str
    default: bool


class MoeType(Struct, frozen=True):
    """How a mixture-of-experts config names its parts."""

    block: str
    count: str = "num_experts"
    count_saved: str = ""  # what save_pretrained of transformers 5 calls it, where that is another name
    intermediate: str = "moe_intermediate_size"
    shared: str = ""  # key of the shared expert's size, behind a gate of its own
    shared_count: str = ""  # key of how many experts' width all tokens pass, without a gate
    dense_first: str = ""  # key of how many first layers have a plain MLP
    balanced: bool = True  # transformers has a loss that keeps the load of its experts balanced
    sparse_steps: bool = False  # understands decoder_sparse_step and mlp_only_layers
    bias: bool = False
    gate_up: str = "experts.gate_up_proj"  # the fused parameters, as the block has them
    down: str = "experts.down_proj"


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
    unbuilt: str = ""  # a switch whose parts are not built: it is refused


class WholeType(Struct, frozen=True):
    """How the config of a model names the heads of its layers without a window, where they differ from the others."""

    head_dim: Number
    kv_heads: str  # key; it holds where `shares_values` is on
    shares_values: Key  # keys and values come from one projection
    by_layer: str  # key of what transformers 5 saves instead of them: layer -> its own sizes
    unbuilt: tuple[Number | Key, ...]  # switches and sizes whose parts are not built: they are refused


class ModelType(Struct, frozen=True):
    """One row: class names, module names, and the defaults that transformers fills in."""

    decoder_layer: str
    ties: bool = False  # class default of tie_word_embeddings
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
    whole: WholeType | None = None
    attention_alone: bool = False  # the class may have other mixers, which are not built: layer_types is required
    intermediate: str = "intermediate_size"  # key of the feed-forward block's width
    adjusts_width: bool = False  # the class makes that width smaller and round, unless block_auto_adjust_ff_dim is off
    modules: Modules = _SPLIT
    mixer: MixerType | None = None
    moe: MoeType | None = None
    scores: bool = True  # transformers has a class of it that scores sequences, with the head `score`
    buffers: bool = False  # its checkpoint holds buffers beside its parameters
    renamed_on_save: bool = False  # save_pretrained writes other parameter names than the running model has


_BIAS = Key("attention_bias", False)
_BIAS_ON = Key("attention_bias", True)
_MLP_BIAS = Key("mlp_bias", False)
_USE_BIAS = Key("use_bias", True)
_FUSED = Modules(qkv=("qkv_proj",), mlp_in=("gate_up_proj",))
_GLM4 = Modules(mlp_in=("gate_up_proj",))
_GRANITE4 = Modules(mlp_in=("input_linear",), mlp_out="output_linear")
_LFM2 = Modules(output="out_proj", mlp_in=("w1", "w3"), mlp_out="w2")
_STARCODER = Modules(mlp_in=("c_fc",), mlp_out="c_proj")
_NEOX = Modules(qkv=("query_key_value",), output="dense", mlp_in=("dense_h_to_4h",), mlp_out="dense_4h_to_h")
_DELTA_NET = MixerType(
    GatedDeltaNet,
    layer_type="linear_attention",
    fields={
        "key_heads": Number("linear_num_key_heads", 16),
        "value_heads": Number("linear_num_value_heads", 32),
        "key_dim": Number("linear_key_head_dim", 128),
        "value_dim": Number("linear_value_head_dim", 128),
        "kernel": Number("linear_conv_kernel_dim", 4),
    },
    every=Number("full_attention_interval", 4),
)
_SHORT_CONVOLUTION = MixerType(
    ShortConvolution,
    layer_type="conv",
    fields={"kernel": Number("conv_L_cache", 3)},
    listed="full_attn_idxs",
    unbuilt="conv_bias",
)
_GEMMA4_WHOLE = WholeType(
    head_dim=Number("global_head_dim", 512),
    kv_heads="num_global_key_value_heads",
    shares_values=Key("attention_k_eq_v", False),
    by_layer="per_layer_config",
    unbuilt=(
        Number("num_kv_shared_layers", 0),
        Number("hidden_size_per_layer_input", 256),
        Key("enable_moe_block", False),
    ),
)
_GEMMA4_UNIFIED_WHOLE = WholeType(
    head_dim=Number("global_head_dim", 512),
    kv_heads="num_global_key_value_heads",
    shares_values=Key("attention_k_eq_v", False),
    by_layer="per_layer_config",
    unbuilt=(Number("num_kv_shared_layers", 0),),
)
_MIXTRAL_MOE = MoeType("MixtralSparseMoeBlock", count="num_local_experts", intermediate="intermediate_size")
_GPT_OSS_MOE = MoeType("GptOssMLP", count="num_local_experts", intermediate="intermediate_size", bias=True)
_GLM4_MOE = MoeType(
    "Glm4MoeMoE",
    count="n_routed_experts",
    shared_count="n_shared_experts",
    dense_first="first_k_dense_replace",
    balanced=False,
)
_QWEN3_MOE = MoeType("Qwen3MoeSparseMoeBlock", count_saved="num_local_experts", sparse_steps=True)
_QWEN2_MOE = MoeType("Qwen2MoeSparseMoeBlock", shared="shared_expert_intermediate_size", sparse_steps=True)
_GEMMA4 = {
    "norms_in_fp32": True,
    "ties": True,
    "kv_heads_optional": False,
    "head_dim": 256,
    "qkv_bias": _BIAS,
    "output_bias": _BIAS,
    "qk_norm": "head",
    "values_normed": True,
    "norms": 4,
    "windowed": "always",
    "layers_differ": True,
    "full_attention_every": 6,
    "scores": False,
    "buffers": True,
}

MODEL_TYPES: dict[str, ModelType] = {
    "llama": ModelType("LlamaDecoderLayer", qkv_bias=_BIAS, output_bias=_BIAS, mlp_bias=_MLP_BIAS),
    "mistral": ModelType("MistralDecoderLayer", kv_heads_optional=False, windowed="always", window=4096),
    "mixtral": ModelType(
        "MixtralDecoderLayer", kv_heads_optional=False, windowed="always", moe=_MIXTRAL_MOE, renamed_on_save=True
    ),
    "qwen2": ModelType(
        "Qwen2DecoderLayer", kv_heads_optional=False, qkv_bias=True, windowed="switch", layers_differ=True
    ),
    "qwen2_moe": ModelType(
        "Qwen2MoeDecoderLayer",
        kv_heads_optional=False,
        qkv_bias=Key("qkv_bias", True),
        windowed="switch",
        layers_differ=True,
        moe=_QWEN2_MOE,
        renamed_on_save=True,
    ),
    "qwen3": ModelType(
        "Qwen3DecoderLayer",
        kv_heads_optional=False,
        head_dim=128,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        qk_norm="head",
        windowed="switch",
        layers_differ=True,
    ),
    "qwen3_moe": ModelType(
        "Qwen3MoeDecoderLayer",
        kv_heads_optional=False,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        qk_norm="head",
        windowed="switch",
        moe=_QWEN3_MOE,
        renamed_on_save=True,
    ),
    "qwen3_5_text": ModelType(
        "Qwen3_5DecoderLayer",
        kv_heads_optional=False,
        head_dim=256,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        qk_norm="head",
        output_gate=True,
        norms_in_fp32=True,
        mixer=_DELTA_NET,
    ),
    "lfm2": ModelType(
        "Lfm2DecoderLayer",
        ties=True,
        kv_heads_optional=False,
        qk_norm="head",
        adjusts_width=True,
        modules=_LFM2,
        mixer=_SHORT_CONVOLUTION,
        scores=False,
    ),
    "gemma": ModelType(
        "GemmaDecoderLayer",
        ties=True,
        kv_heads_optional=False,
        head_dim=256,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        norms_in_fp32=True,
    ),
    "gemma2": ModelType(
        "Gemma2DecoderLayer",
        norms_in_fp32=True,
        softcap=True,
        ties=True,
        kv_heads_optional=False,
        head_dim=256,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        norms=4,
        windowed="always",
        window=4096,
        layers_differ=True,
        full_attention_every=2,
    ),
    "gemma3_text": ModelType(
        "Gemma3DecoderLayer",
        norms_in_fp32=True,
        ties=True,
        kv_heads_optional=False,
        head_dim=256,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        qk_norm="head",
        norms=4,
        windowed="always",
        window=4096,
        layers_differ=True,
        full_attention_every=6,
        pattern_key="sliding_window_pattern",
    ),
    "gemma4_text": ModelType("Gemma4TextDecoderLayer", window=512, whole=_GEMMA4_WHOLE, **_GEMMA4),
    "gemma4_unified_text": ModelType(
        "Gemma4UnifiedTextDecoderLayer", window=1024, whole=_GEMMA4_UNIFIED_WHOLE, **_GEMMA4
    ),
    "phi3": ModelType("Phi3DecoderLayer", windowed="always", modules=_FUSED),
    "olmo2": ModelType("Olmo2DecoderLayer", qkv_bias=_BIAS, output_bias=_BIAS, qk_norm="full"),
    "olmo3": ModelType(
        "Olmo3DecoderLayer",
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        qk_norm="full",
        windowed="always",
        window=4096,
        layers_differ=True,
        full_attention_every=4,
    ),
    "granite": ModelType("GraniteDecoderLayer", qkv_bias=_BIAS, output_bias=_BIAS, mlp_bias=_MLP_BIAS, scores=False),
    "granitemoehybrid": ModelType(
        "GraniteMoeHybridDecoderLayer",
        leaks=True,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        attention_alone=True,
        intermediate="shared_intermediate_size",
        modules=_GRANITE4,
        scores=False,
    ),
    "glm4": ModelType(
        "Glm4DecoderLayer", kv_heads_optional=False, head_dim=128, qkv_bias=_BIAS_ON, norms=4, modules=_GLM4
    ),
    "glm4_moe": ModelType(
        "Glm4MoeDecoderLayer",
        kv_heads_optional=False,
        qkv_bias=_BIAS,
        qk_norm="head",
        qk_norm_switch=Key("use_qk_norm", False),
        moe=_GLM4_MOE,
        scores=False,
        buffers=True,
        renamed_on_save=True,
    ),
    "ministral3": ModelType("Ministral3DecoderLayer", kv_heads_optional=False, head_dim=128, windowed="always"),
    "seed_oss": ModelType(
        "SeedOssDecoderLayer",
        kv_heads_optional=False,
        head_dim=128,
        qkv_bias=_BIAS_ON,
        output_bias=Key("attention_out_bias", False),
        mlp_bias=_MLP_BIAS,
    ),
    "smollm3": ModelType(
        "SmolLM3DecoderLayer",
        ties=True,
        kv_heads_optional=False,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        mlp_bias=_MLP_BIAS,
        windowed="switch",
        layers_differ=True,
    ),
    "starcoder2": ModelType(
        "Starcoder2DecoderLayer",
        ties=True,
        kv_heads_optional=False,
        qkv_bias=_USE_BIAS,
        output_bias=_USE_BIAS,
        mlp_bias=_USE_BIAS,
        norm_bias=True,
        gated=False,
        windowed="always",
        modules=_STARCODER,
    ),
    "gpt_neox": ModelType(
        "GPTNeoXLayer",
        qkv_bias=_BIAS_ON,
        output_bias=_BIAS_ON,
        mlp_bias=True,
        norm_bias=True,
        gated=False,
        modules=_NEOX,
        renamed_on_save=True,
    ),
    "gpt_oss": ModelType(
        "GptOssDecoderLayer",
        kv_heads_optional=False,
        head_dim=64,
        qkv_bias=_BIAS_ON,
        output_bias=_BIAS_ON,
        sinks=True,
        leaks=True,
        windowed="always",
        window=128,
        layers_differ=True,
        full_attention_every=2,
        moe=_GPT_OSS_MOE,
    ),
}
