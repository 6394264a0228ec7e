"""How the configurations of mixtures of experts name their parts, for the rows of model_types.py."""

from __future__ import annotations

from recipec.catalog.type_row import Key, MoeType, Number

MIXTRAL_MOE = MoeType(
    "MixtralSparseMoeBlock",
    count="num_local_experts",
    intermediate="intermediate_size",
    dispatched=True,
    one_by_one=True,
)
GPT_OSS_MOE = MoeType("GptOssMLP", count="num_local_experts", intermediate="intermediate_size", bias=True)
GRANITE4_MOE = MoeType(
    "GraniteMoeHybridMoE",
    count="num_local_experts",
    intermediate="intermediate_size",
    beside=True,
    optional=True,
    spread=False,
    balanced=False,  # TRL 1.16's loss asks its configuration for num_experts, which it has not got (AttributeError)
)
GEMMA4_MOE = MoeType(
    "Gemma4TextExperts",
    per_token="top_k_experts",
    beside=True,
    switch=Key("enable_moe_block", False),
    norms=3,
    router="proj",
    router_scales=True,
    spread=False,
    balanced=False,
)
LLAMA4_MOE = MoeType(
    "Llama4TextMoe",
    count="num_local_experts",
    intermediate="intermediate_size",
    shared_one=True,
    router="router",
    all_run=True,
    every=Number("interleave_moe_layer_step", 1),
    listed="moe_layers",
    balanced=False,
    spread=False,
)
GLM4_MOE = MoeType(
    "Glm4MoeMoE",
    count="n_routed_experts",
    shared_count="n_shared_experts",
    dense_first="first_k_dense_replace",
    balanced=False,
    one_by_one=True,
)
NEMOTRON_H_MOE = MoeType(
    "NemotronHMoE",
    count="n_routed_experts",
    shared="moe_shared_expert_intermediate_size",
    shared_gate=False,
    gate_up="experts.up_proj",
    one_by_one=True,
    balanced=False,
    spread=False,
    unbuilt=("moe_latent_size",),
)
QWEN3_MOE = MoeType(
    "Qwen3MoeSparseMoeBlock",
    count_saved="num_local_experts",
    sparse_steps=True,
    normalizes=Key("norm_topk_prob", False),
    dispatched=True,
    one_by_one=True,
)
QWEN2_MOE = MoeType(
    "Qwen2MoeSparseMoeBlock", shared="shared_expert_intermediate_size", sparse_steps=True, one_by_one=True
)
