"""How configurations name what tells layers of attention apart, for the rows of model_types.py."""

from __future__ import annotations

from recipec.catalog.type_row import BorrowingType, ChunkType, InputsType, Key, Number, WholeType

GEMMA4_WHOLE = WholeType(
    head_dim=Number("global_head_dim", 512),
    kv_heads="num_global_key_value_heads",
    shares_values=Key("attention_k_eq_v", False),
    by_layer="per_layer_config",
)
GEMMA4_BORROWING = BorrowingType(Number("num_kv_shared_layers", 0), Key("use_double_wide_mlp", False))
GEMMA4_INPUTS = InputsType(Number("hidden_size_per_layer_input", 256), Number("vocab_size_per_layer_input", 262144))
GEMMA4_UNIFIED_WHOLE = WholeType(
    head_dim=Number("global_head_dim", 512),
    kv_heads="num_global_key_value_heads",
    shares_values=Key("attention_k_eq_v", False),
    by_layer="per_layer_config",
    unbuilt=(Number("num_kv_shared_layers", 0),),
)
LLAMA4_CHUNKS = ChunkType(
    size=Number("attention_chunk_size", 8192),
    layer_type="chunked_attention",
    every=Number("no_rope_layer_interval", 4),
    rotated="no_rope_layers",
    scale=Number("floor_scale", 8192),
    scales=Key("attn_temperature_tuning", True),
)
