"""What each supported `model_type` of transformers 5.23 is made of, beyond what its config.json says.

Checked 2026-11-20 against the modelling and configuration sources of transformers 5.23.0; a test builds every row.
"""

from __future__ import annotations

from recipec.catalog.architecture import LayerKind, Modules
from recipec.catalog.expert_types import (
    GEMMA4_MOE,
    GLM4_MOE,
    GPT_OSS_MOE,
    GRANITE4_MOE,
    LLAMA4_MOE,
    MIXTRAL_MOE,
    NEMOTRON_H_MOE,
    QWEN2_MOE,
    QWEN3_MOE,
)
from recipec.catalog.layer_types import (
    GEMMA4_BORROWING,
    GEMMA4_INPUTS,
    GEMMA4_UNIFIED_WHOLE,
    GEMMA4_WHOLE,
    LLAMA4_CHUNKS,
)
from recipec.catalog.mixers import GatedDeltaNet, ShortConvolution, StateSpace
from recipec.catalog.type_row import Key, MixerType, ModelType, Number, PatternType

_BIAS = Key("attention_bias", False)
_BIAS_ON = Key("attention_bias", True)
_MLP_BIAS = Key("mlp_bias", False)
_USE_BIAS = Key("use_bias", True)
_FUSED = Modules(qkv=("qkv_proj",), mlp_in=("gate_up_proj",))
_GLM4 = Modules(mlp_in=("gate_up_proj",))
_GRANITE4 = Modules(mlp_in=("input_linear",), mlp_out="output_linear")
_LFM2 = Modules(output="out_proj", mlp_in=("w1", "w3"), mlp_out="w2")
_NEMOTRON_H = Modules(mlp_in=("up_proj",), embedding="embeddings")
_STARCODER = Modules(mlp_in=("c_fc",), mlp_out="c_proj")
_NEOX = Modules(
    qkv=("query_key_value",),
    output="dense",
    mlp_in=("dense_h_to_4h",),
    mlp_out="dense_4h_to_h",
    embedding="embed_in",
)
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
    built=(Key("conv_bias", False),),
)
_STATE_SPACE = MixerType(
    StateSpace,
    layer_type="linear_attention",
    fields={
        "heads": Number("mamba_n_heads", 128),
        "head_dim": Number("mamba_d_head", 0),
        "state": Number("mamba_d_state", 256),
        "groups": Number("mamba_n_groups", 1),
        "kernel": Number("mamba_d_conv", 4),
        "chunk": Number("mamba_chunk_size", 256),
    },
    older={"mamba": "linear_attention", "attention": "full_attention"},
    optional=True,
    expand=Number("mamba_expand", 2),
    built=(Key("mamba_conv_bias", True), Key("mamba_proj_bias", False)),
)
_NEMOTRON_H_STATE_SPACE = MixerType(
    StateSpace,
    layer_type="linear_attention",
    fields={
        "heads": Number("mamba_num_heads", 128),
        "head_dim": Number("mamba_head_dim", 64),
        "state": Number("ssm_state_size", 128),
        "groups": Number("n_groups", 8),
        "kernel": Number("conv_kernel", 4),
        "chunk": Number("chunk_size", 128),
    },
    built=(Key("use_conv_bias", True), Key("use_bias", False)),
)
_FALCON_H1_STATE_SPACE = MixerType(
    StateSpace,
    layer_type="hybrid",
    fields=_STATE_SPACE.fields,
    flags={"normed": Key("mamba_rms_norm", False), "scaled": True},
    expand=Number("mamba_expand", 2),
    inner=Number("mamba_d_ssm", 1024),
    built=(Key("mamba_conv_bias", True), Key("mamba_proj_bias", False), Key("projectors_bias", False)),
)
_NEMOTRON_H_PATTERN = PatternType(
    {
        "linear_attention": LayerKind(attention=False, mixer=True, block=False),
        "full_attention": LayerKind(block=False),
        "mlp": LayerKind(attention=False, plain=True),
        "moe": LayerKind(attention=False),
    },
    key="layers_block_type",
    older={"mamba": "linear_attention", "attention": "full_attention"},
    letters_key="hybrid_override_pattern",
    letters={"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"},
)
_GEMMA4 = {
    "stored_buffers": True,
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
    "llama4_text": ModelType(
        "Llama4TextDecoderLayer",
        causal_class="Llama4ForCausalLM",
        head_dim=128,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        qk_norm="unit",
        qk_norm_switch=Key("use_qk_norm", True),
        intermediate="intermediate_size_mlp",
        chunks=LLAMA4_CHUNKS,
        sounds_balanced=True,
        moe=LLAMA4_MOE,
        scores=False,
    ),
    "mistral": ModelType("MistralDecoderLayer", kv_heads_optional=False, windowed="always", window=4096),
    "mixtral": ModelType(
        "MixtralDecoderLayer", kv_heads_optional=False, windowed="always", moe=MIXTRAL_MOE, renamed_on_save=True
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
        moe=QWEN2_MOE,
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
        moe=QWEN3_MOE,
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
    "gemma4_text": ModelType(
        "Gemma4TextDecoderLayer",
        window=512,
        whole=GEMMA4_WHOLE,
        borrowing=GEMMA4_BORROWING,
        layer_inputs=GEMMA4_INPUTS,
        moe=GEMMA4_MOE,
        **_GEMMA4,
    ),
    "gemma4_unified_text": ModelType(
        "Gemma4UnifiedTextDecoderLayer", window=1024, whole=GEMMA4_UNIFIED_WHOLE, **_GEMMA4
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
        intermediate="shared_intermediate_size",
        modules=_GRANITE4,
        mixer=_STATE_SPACE,
        moe=GRANITE4_MOE,
        sounds_balanced=True,
        renamed_experts=True,
        scores=False,
    ),
    "nemotron_h": ModelType(
        "NemotronHBlock",
        stored_buffers=True,
        ties=None,
        kv_heads_optional=False,
        head_dim=128,
        mlp_bias=_MLP_BIAS,
        norms_in_fp32=True,
        gated=False,
        norms=1,
        modules=_NEMOTRON_H,
        mixer=_NEMOTRON_H_STATE_SPACE,
        pattern=_NEMOTRON_H_PATTERN,
        moe=NEMOTRON_H_MOE,
        scores=False,
        buffers=True,
        renamed_on_save=True,
    ),
    "falcon_h1": ModelType(
        "FalconH1DecoderLayer",
        kv_heads_optional=False,
        qkv_bias=_BIAS,
        output_bias=_BIAS,
        mlp_bias=_MLP_BIAS,
        mixer=_FALCON_H1_STATE_SPACE,
        pattern=PatternType({"hybrid": LayerKind(mixer=True)}),
        scores=False,
    ),
    "glm4": ModelType(
        "Glm4DecoderLayer", kv_heads_optional=False, head_dim=128, qkv_bias=_BIAS_ON, norms=4, modules=_GLM4
    ),
    "glm4_moe": ModelType(
        "Glm4MoeDecoderLayer",
        stored_buffers=True,
        kv_heads_optional=False,
        qkv_bias=_BIAS,
        qk_norm="head",
        qk_norm_switch=Key("use_qk_norm", False),
        moe=GLM4_MOE,
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
        moe=GPT_OSS_MOE,
    ),
}
