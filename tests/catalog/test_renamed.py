"""Which model types transformers saves under other parameter names than it runs them with."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipec.catalog.model_types import MODEL_TYPES

pytest.importorskip("transformers")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
WIDTHS = {"intermediate_size": 32, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "vocab_size": 64}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
STATE_SPACE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "mamba_n_heads": 4,
    "mamba_d_state": 8,
    "layer_types": ["mamba", "attention"],
}


ALONE = {
    "layers_block_type": ["mamba", "moe", "attention", "mlp"],
    "mamba_num_heads": 4,
    "mamba_head_dim": 8,
    "ssm_state_size": 8,
    "n_groups": 2,
    "moe_shared_expert_intermediate_size": 32,
}
TWO_HEADS = {
    **SIZES,
    "layer_types": ["sliding_attention", "full_attention"],
    "hidden_size_per_layer_input": 0,
    "global_head_dim": 16,
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}


@pytest.mark.parametrize("name", MODEL_TYPES)
def test_a_saved_model_has_the_names_that_its_row_says(tmp_path: Path, name: str) -> None:
    from safetensors.torch import load_file
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    row = MODEL_TYPES[name]
    state_space, whole = row.mixer is not None and row.mixer.optional, row.whole
    alone = ALONE if row.pattern and row.pattern.key else {}
    config = CONFIG_MAPPING[name](**STATE_SPACE if state_space else TWO_HEADS if whole else alone)
    for key, value in {**(SIZES if not whole else {}), **WIDTHS, **TOKENS, **EXPERTS}.items():
        if hasattr(config, key):
            setattr(config, key, value)
    if getattr(config, "layer_types", None) and not row.pattern:
        config.layer_types = config.layer_types[:2]
    model = AutoModelForCausalLM.from_config(config)

    for folder, original in (("other", True), ("running", False)):
        model.save_pretrained(tmp_path / folder, save_original_format=original)
        missing = model.load_state_dict(load_file(tmp_path / folder / "model.safetensors"), strict=False).missing_keys
        assert bool(missing) == ((row.renamed_on_save or row.renamed_experts) and original), missing[:3]
