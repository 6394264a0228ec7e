"""Every supported model_type against the real model of transformers, tiny and on the meta device."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from recipec.catalog.configs import architecture_from_config
from recipec.catalog.model_types import MODEL_TYPES

TINY = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
EXPERTS = {"num_experts_per_tok": 2, "num_experts": 6, "num_local_experts": 6, "moe_intermediate_size": 20}
ATTENTION_ALONE = {"layer_types": ["attention"] * 4, "num_local_experts": 0, "mamba_n_heads": 4}
STATE_SPACE = {"layer_types": ["mamba", "attention"] * 2, "mamba_n_heads": 6, "mamba_d_state": 10}
STATE_SPACE |= {"mamba_n_groups": 2, "shared_intermediate_size": 56, "num_local_experts": 0}
GLM = {**EXPERTS, "n_routed_experts": 6, "n_shared_experts": 2, "first_k_dense_replace": 1}
DELTA_NET = {"head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 10}
GEMMA4 = {"layer_types": ["sliding_attention", "full_attention"] * 2, "head_dim": 8, "global_head_dim": 12}
GEMMA4 |= {"hidden_size_per_layer_input": 0, "sliding_window": 8}
BESIDE = {"mamba_d_ssm": 30, "mamba_n_heads": 6, "mamba_d_head": 5, "mamba_d_state": 10, "head_dim": 8}
ALONE = {"mamba_num_heads": 6, "mamba_head_dim": 10, "ssm_state_size": 12, "n_groups": 2, "head_dim": 8}
ALONE |= {"layers_block_type": ["mamba", "mlp", "attention", "mlp"]}
ALONE_MOE = {**ALONE, **EXPERTS, "layers_block_type": None, "hybrid_override_pattern": "ME*E", "n_routed_experts": 6}
ALONE_MOE |= {"moe_shared_expert_intermediate_size": 28}
SHARED_VALUES = {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1, "attention_bias": True}
BORROWING = {**GEMMA4, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 50}
LLAMA4 = {**EXPERTS, "intermediate_size_mlp": 56}
VARIANTS = {
    **{model_type: {} for model_type in MODEL_TYPES},
    "llama with biases, tied": {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "llama with head_dim": {"head_dim": 8},
    "llama4_text": LLAMA4,
    "llama4_text with dense layers and biases": {**LLAMA4, "interleave_moe_layer_step": 2, "attention_bias": True},
    "llama4_text with other chunks": {**LLAMA4, "no_rope_layer_interval": 2, "use_qk_norm": False},
    "mistral with null head_dim": {"head_dim": None},
    "mixtral": EXPERTS,
    "gpt_oss": EXPERTS,
    "gpt_oss without biases": {**EXPERTS, "attention_bias": False},
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 28},
    "qwen3_moe": EXPERTS,
    "qwen3_moe with dense layers": {**EXPERTS, "decoder_sparse_step": 2, "mlp_only_layers": [1]},
    "qwen3 with biases": {"attention_bias": True, "head_dim": 16},
    "gemma2 untied": {"tie_word_embeddings": False, "head_dim": 8},
    "gpt_neox": {"num_key_value_heads": 4},
    "granitemoehybrid": {**ATTENTION_ALONE, "shared_intermediate_size": 56},
    "granitemoehybrid with mamba": STATE_SPACE,
    "granitemoehybrid with mamba and experts": {**STATE_SPACE, **EXPERTS, "mamba_expand": 3},
    "granitemoehybrid with experts": {**ATTENTION_ALONE, **EXPERTS, "shared_intermediate_size": 56},
    "glm4_moe": GLM,
    "glm4_moe with norms, biases and head_dim": {**GLM, "use_qk_norm": True, "attention_bias": True, "head_dim": 16},
    "glm4_moe with experts everywhere": {**GLM, "n_shared_experts": 1, "first_k_dense_replace": 0},
    "glm4 without biases": {"attention_bias": False},
    "seed_oss with biases": {"attention_out_bias": True, "mlp_bias": True},
    "gemma4_text": GEMMA4,
    "gemma4_text whose keys are values": SHARED_VALUES,
    "gemma4_text that borrows keys": BORROWING,
    "gemma4_text that borrows keys, with wide blocks": {
        **BORROWING,
        "use_double_wide_mlp": True,
        "attention_bias": True,
    },
    "gemma4_text with slices alone": {**BORROWING, "num_kv_shared_layers": 0},
    "gemma4_text with experts": {**SHARED_VALUES, **EXPERTS, "enable_moe_block": True, "top_k_experts": 3},
    "gemma4_unified_text": GEMMA4,
    "gemma4_unified_text whose keys are values": SHARED_VALUES,
    "falcon_h1": BESIDE,
    "falcon_h1 with a norm and biases": {**BESIDE, "mamba_rms_norm": True, "attention_bias": True, "mlp_bias": True},
    "falcon_h1 by its expansion": {**BESIDE, "mamba_d_ssm": None, "mamba_d_head": "auto", "mamba_expand": 3},
    "nemotron_h": ALONE,
    "nemotron_h with biases": {**ALONE, "mlp_bias": True, "tie_word_embeddings": True},
    "nemotron_h with experts": ALONE_MOE,
    "nemotron_h with experts and plain blocks": {**ALONE_MOE, "hybrid_override_pattern": "ME*-"},
    "starcoder2 without biases": {"use_bias": False},
    "smollm3 untied": {"tie_word_embeddings": False},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2 with an adjusted width": {"full_attn_idxs": [0, 2, 3], "block_ff_dim": 900, "block_multiple_of": 32},
    "qwen3_5_text": DELTA_NET,
    "qwen3_5_text with biases": {**DELTA_NET, "attention_bias": True, "full_attention_interval": 2},
}


def config_of(variant: str) -> dict:
    model_type = variant.split()[0]
    return {"model_type": model_type, **TINY, **VARIANTS[variant]}


@pytest.mark.executes
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_real_model_has_the_architecture(variant: str) -> None:
    ours, model = architecture_from_config(config_of(variant)), real_model(config_of(variant))
    layers = layers_of(model)
    assert sum(parameter.numel() for parameter in model.parameters()) == ours.params
    vision = {name for name in model._no_split_modules if "Vision" in name or "Audio" in name}
    assert {type(layer).__name__ for layer in layers} == {ours.decoder_layer} == set(model._no_split_modules) - vision
    kinds = [plain(ours.kind(number), each, ours) for number, each in enumerate(layers)]
    assert [linears(layer) for layer in layers] == [sorted(ours.linear_shapes(kind)) for kind in kinds]
    assert [parameters(layer) for layer in layers] == [ours.layer_params(kind) for kind in kinds]
    assert sum(layers for _, layers in ours.kinds) == len(layers)
    assert linears(beside(model)) == sorted(ours.linear_groups[-1][1] if ours.layer_inputs else ())
    assert embeddings(model) == ours.embedding_params
    buffers = model.state_dict().keys() - dict(model.named_parameters(remove_duplicate=False))
    assert bool(buffers) is (MODEL_TYPES[ours.model_type].buffers and (ours.moe is not None or not ours.pattern))


@pytest.mark.executes
@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_the_class_that_does_not_name_its_decoder_is_the_one_of_the_catalog(model_type: str) -> None:
    model = real_model(config_of(model_type))
    unnamed = "" if hasattr(model, model.base_model_prefix) else type(model).__name__
    assert MODEL_TYPES[model_type].causal_class == unnamed


@pytest.mark.executes
@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_the_types_that_score_are_those_with_a_class_and_a_head(model_type: str) -> None:
    """The head comes last, so that 4-bit loading leaves it as it is (transformers quantizers/base.py)."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as KNOWN
    from transformers.quantizers.base import get_keys_to_not_convert

    assert MODEL_TYPES[model_type].scores is (model_type in KNOWN)
    if model_type in KNOWN:
        with torch.device("meta"):
            config = AutoConfig.for_model(**config_of(model_type), num_labels=1)
            model = AutoModelForSequenceClassification.from_config(config)
        assert (tuple(model.score.weight.shape), model.score.bias) == ((1, TINY["hidden_size"]), None)
        assert "score" in get_keys_to_not_convert(model)


@pytest.mark.executes
@pytest.mark.parametrize("variant", [v for v in VARIANTS if architecture_from_config(config_of(v)).moe])
def test_the_real_experts_are_as_stated(variant: str) -> None:
    ours = architecture_from_config(config_of(variant))
    layers = layers_of(real_model(config_of(variant)))
    blocks = [block for layer in layers if (block := block_of(layer))]
    assert len(blocks) == ours.sparse_layers
    assert {ours.moe.block} in [
        {type(each).__name__ for each in some} for some in (blocks, [b.experts for b in blocks])
    ]
    fused = [(name, block.get_parameter(name)) for block in blocks for name in ours.expert_parameters]
    shapes = {(name, weights.ndim, weights.numel()) for name, weights in fused}
    assert shapes == {(name, 3, count * taken * given) for name, count, taken, given in ours.expert_shapes()}


@pytest.mark.executes
@pytest.mark.parametrize("variant", [v for v in VARIANTS if MODEL_TYPES[v.split()[0]].moe])
def test_a_saved_mixture_says_the_same_as_the_published_one(variant: str) -> None:
    from transformers import AutoConfig

    saved = AutoConfig.for_model(**config_of(variant)).to_dict()
    assert architecture_from_config(saved) == architecture_from_config(config_of(variant))


@pytest.mark.executes
@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_the_norms_that_multiply_in_fp32_keep_what_they_multiply_in_fp32(model_type: str) -> None:
    import torch

    norm = next(norms(layers_of(real_model(config_of(model_type)))[-1])).to_empty(device="cpu").to(torch.bfloat16)
    states = torch.randn(3, TINY["hidden_size"], dtype=torch.bfloat16, requires_grad=True)
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.setdefault(saved.data_ptr(), saved), lambda _: _):
        norm(states)
    wide = [saved for saved in kept.values() if saved.dtype == torch.float32 and saved.shape == states.shape]
    assert (len(wide) == 2) is MODEL_TYPES[model_type].norms_in_fp32


def real_model(config: dict):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))


def plain(kind, layer, ours):
    """The kind of a layer, which in a mixture of experts may have the plain block instead of them."""
    return replace(kind, plain=True) if ours.moe and kind.block and not has_experts(layer) else kind


def layers_of(model):
    """The decoder layers; the class of Llama 4 does not say where its decoder is."""
    return getattr(model, model.base_model_prefix, getattr(model, "model", None)).layers


def beside(model):
    """What stands beside the decoder layers."""
    from torch.nn import ModuleDict

    decoder = getattr(model, model.base_model_prefix, getattr(model, "model", None))
    return ModuleDict({name: module for name, module in decoder.named_children() if name != "layers"})


def norms(layer):
    return (
        part for part in layer.children() if {tuple(p.shape) for p in part.parameters()} == {(TINY["hidden_size"],)}
    )


def parameters(layer) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


def linears(layer) -> list[tuple[str, int, int]]:
    from torch.nn import Linear

    modules = ((name, m) for name, m in layer.named_modules() if isinstance(m, Linear))
    return sorted((name.rpartition(".")[2], m.in_features, m.out_features) for name, m in modules)


def has_experts(layer) -> bool:
    return block_of(layer) is not None


def block_of(layer):
    """The module that holds the experts: the layer itself where they stand beside the plain block."""
    return next((module for module in layer.modules() if hasattr(module, "experts")), None)


def embeddings(model) -> int:
    ends = {id(m.weight): m.weight for m in (model.get_input_embeddings(), model.get_output_embeddings())}
    return sum(weight.numel() for weight in ends.values())
