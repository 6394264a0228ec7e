"""From config.json to an architecture: class defaults are followed, gaps are refused by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recipec.catalog.configs import UnsupportedConfig, architecture_from_config
from recipec.catalog.local import has_token, local_model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 1}


def test_absent_keys_get_the_defaults_of_their_class() -> None:
    shape = architecture_from_config(LLAMA)
    assert (shape.num_kv_heads, shape.head_dim, shape.tie_embeddings) == (4, 16, False)
    gemma = LLAMA | {"model_type": "gemma2", "num_key_value_heads": 2}
    assert (architecture_from_config(gemma).head_dim, architecture_from_config(gemma).tie_embeddings) == (256, True)


@pytest.mark.parametrize(
    ("change", "missing", "words"),
    [
        ({"model_type": None}, ("model_type",), "no model_type"),
        ({"model_type": "deepseek_v3"}, (), "'deepseek_v3' is not built: its latent attention"),
        ({"model_type": "mistral"}, ("num_key_value_heads",), "lacks num_key_value_heads"),
        ({"model_type": "mixtral"}, ("num_key_value_heads", "num_local_experts", "num_experts_per_tok"), "lacks"),
        ({"model_type": "llama4_text", "intermediate_size_mlp": 1, **EXPERTS}, ("num_key_value_heads",), "lacks"),  # 8
        ({"hidden_size": "64"}, (), "hidden_size is '64'"),
        ({"num_hidden_layers": 0}, (), "num_hidden_layers is 0"),
    ],
)
def test_a_refusal_names_what_is_missing(change: dict, missing: tuple, words: str) -> None:
    with pytest.raises(UnsupportedConfig, match=words) as refused:
        architecture_from_config(LLAMA | change)
    assert refused.value.missing == missing


@pytest.mark.parametrize(
    ("change", "context"),
    [
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}, 2048),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}, 2048),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, 1024),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 128}}, 512),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}}, 512),
        ({"rope_parameters": {"rope_type": "yarn", "factor": None}}, 512),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 128}}, 512),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2.0}}}, 512),
        ({"rope_scaling": None}, 512),
    ],
)
def test_the_context_is_that_after_yarn(change: dict, context: int) -> None:
    assert architecture_from_config(LLAMA | change).max_position == context


@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "max_position_embeddings"])
def test_a_missing_size_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedConfig) as refused:
        architecture_from_config({k: v for k, v in LLAMA.items() if k != key})
    assert refused.value.missing == (key,)


QWEN3_MOE = {"num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"model_type": "qwen3", "num_key_value_heads": 2, "sliding_window": 32}, None),
        ({"model_type": "qwen3_moe", **QWEN3_MOE, "sliding_window": 32, "use_sliding_window": True}, 32),
        ({"model_type": "mistral", "num_key_value_heads": 2}, 4096),
        ({"model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 32}, 32),
        ({"model_type": "mistral", "num_key_value_heads": 2, "sliding_window": None}, None),
        ({"sliding_window": 32}, None),
    ],
)
def test_a_sliding_window_counts_only_where_it_is_on(config: dict, window: int | None) -> None:
    assert architecture_from_config(LLAMA | config).sliding_window == window


GEMMA3 = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "sliding_window": 32,
}
LOCAL, WHOLE = "sliding_attention", "full_attention"


@pytest.mark.parametrize(
    ("config", "window", "every"),
    [
        ({}, 32, 6),
        ({"sliding_window_pattern": 4}, 32, 4),
        ({"layer_types": [LOCAL, WHOLE, LOCAL, WHOLE]}, 32, 2),
        ({"layer_types": [LOCAL] * 4}, 32, 0),
        ({"layer_types": [WHOLE] * 4}, None, 0),
        ({"model_type": "mistral", "layer_types": [LOCAL, WHOLE] * 2}, 32, 0),
        ({"model_type": "gemma2", "sliding_window_pattern": 6}, 32, 2),
        ({"model_type": "qwen2", "use_sliding_window": True, "layer_types": [LOCAL, WHOLE] * 2}, 32, 2),
    ],
)
def test_which_layers_have_the_window(config: dict, window: int | None, every: int) -> None:
    found = architecture_from_config(LLAMA | GEMMA3 | config)
    assert (found.sliding_window, found.full_attention_every) == (window, every)


@pytest.mark.parametrize(
    "config",
    [
        *({"layer_types": kinds} for kinds in ([WHOLE, LOCAL, LOCAL, WHOLE], [LOCAL], [], [LOCAL, "linear"] * 2, 3)),
        {"sliding_window_pattern": "six"},
        {"model_type": "qwen3", "use_sliding_window": True},
    ],
)
def test_layers_in_no_known_order_are_refused(config: dict) -> None:
    with pytest.raises(UnsupportedConfig, match=r"layer_types|sliding_window_pattern"):
        architecture_from_config(LLAMA | GEMMA3 | config)


GEMMA4 = {**GEMMA3, "model_type": "gemma4_text", "layer_types": [LOCAL, WHOLE] * 2, "hidden_size_per_layer_input": 0}


SLICES = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": LLAMA["vocab_size"]}


def test_the_last_layers_borrow_and_are_wide() -> None:
    shape = architecture_from_config(LLAMA | GEMMA4 | SLICES | {"num_kv_shared_layers": 2, "use_double_wide_mlp": True})
    assert [shape.kind(layer).borrows for layer in range(4)] == [False, False, True, True]
    assert [shape.inner_size(shape.kind(layer)) for layer in range(4)] == [shape.intermediate_size] * 2 + [
        2 * shape.intermediate_size
    ] * 2
    assert shape.cached_features == 2 * (shape.kv_size + 2 * 512)  # of the first two layers
    assert shape.active_params == shape.params - shape.vocab_size * 4 * 8


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        ({}, (2, 512, False)),
        ({"global_head_dim": 16, "num_global_key_value_heads": 1}, (2, 16, False)),
        ({"attention_k_eq_v": True, "num_global_key_value_heads": 1}, (1, 512, True)),
        ({"per_layer_config": {"1": {"head_dim": 16}, "3": {"head_dim": 16}}}, (2, 16, False)),
        ({"per_layer_config": {key: {"head_dim": 16, "num_key_value_heads": 4} for key in "13"}}, (4, 16, False)),
        ({"model_type": "gemma4_unified_text", "hidden_size_per_layer_input": 256}, (2, 512, False)),
    ],
)
def test_heads_of_the_whole_sequence(config: dict, heads: tuple) -> None:
    found = architecture_from_config(LLAMA | GEMMA4 | config)
    assert (found.whole.num_kv_heads, found.whole.head_dim, found.whole.shares_values) == heads


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"hidden_size_per_layer_input": 256}, "vocab_size_per_layer_input is 262144, and vocab_size is"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers is 2, and without hidden_size_per_layer_input"),
        ({**SLICES, "num_kv_shared_layers": 3}, "the other 1 layers are not of every kind"),
        ({"model_type": "gemma4_unified_text", "num_kv_shared_layers": 2}, "num_kv_shared_layers"),
        ({"enable_moe_block": True}, "top_k_experts"),
        ({"per_layer_config": {"1": {"head_dim": 16}}}, "per_layer_config"),
        ({"per_layer_config": {"1": {"head_dim": 16}, "3": {"head_dim": 8}}}, "per_layer_config"),
        ({"layer_types": [LOCAL] * 4}, "layer_types"),
        ({"layer_types": [WHOLE] * 4}, "layer_types"),
    ],
)
def test_what_is_not_built_of_gemma_4_is_refused(config: dict, reason: str) -> None:
    with pytest.raises(UnsupportedConfig, match=reason):
        architecture_from_config(LLAMA | GEMMA4 | config)


LLAMA4 = LLAMA | {"model_type": "llama4_text", "intermediate_size_mlp": 256, "num_hidden_layers": 8}
LLAMA4 |= {"num_key_value_heads": 2}
LLAMA4 |= {"num_local_experts": 4, "num_experts_per_tok": 1}


@pytest.mark.parametrize(
    ("change", "chunk", "whole_every", "experts_every"),
    [
        ({}, 8192, 4, 1),
        ({"attention_chunk_size": 16, "interleave_moe_layer_step": 2}, 16, 4, 2),
        ({"no_rope_layers": [1, 0] * 4, "moe_layers": [3, 7]}, 8192, 2, 4),
        ({"no_rope_layers": [1] * 8, "attn_temperature_tuning": False}, 8192, 0, 1),
    ],
)
def test_chunks_and_experts_of_llama_4(change: dict, chunk: int, whole_every: int, experts_every: int) -> None:
    shape = architecture_from_config(LLAMA4 | change)
    assert shape.moe is not None and shape.chunked
    assert (shape.sliding_window, shape.full_attention_every, shape.moe.every) == (chunk, whole_every, experts_every)
    assert shape.scale_places == (0 if "attn_temperature_tuning" in change else 8192)
    assert (shape.active_params < shape.computed_params) and shape.computed_params == shape.params


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"no_rope_layers": [1, 1, 0, 1, 1, 1, 1, 0]}, "not one layer without chunks in every so many"),
        ({"layer_types": ["full_attention"] * 8}, "do not name the same layers"),
        ({"moe_layers": [0, 3]}, "not one layer in every so many"),
        ({"attention_chunk_size": None}, "attention_chunk_size is None"),
    ],
)
def test_what_is_irregular_of_llama_4_is_refused(change: dict, reason: str) -> None:
    with pytest.raises(UnsupportedConfig, match=reason):
        architecture_from_config(LLAMA4 | change)


def save(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_folder_without_a_chat_template_is_a_base_model(tmp_path: Path) -> None:
    found = local_model(save(tmp_path, config=LLAMA, tokenizer_config={"eos_token": "</s>"}))
    assert (found.kind, found.stop_tokens, found.family) == ("base", ("</s>",), "llama")


def test_a_chat_template_in_either_place_makes_a_chat_model(tmp_path: Path) -> None:
    assert local_model(save(tmp_path, config=LLAMA, tokenizer_config={"chat_template": "{{ x }}"})).kind == "chat"
    save(tmp_path, tokenizer_config={}).joinpath("chat_template.jinja").write_text("{{ x }}")
    assert local_model(tmp_path).kind == "chat"


def test_the_generation_config_says_where_to_stop(tmp_path: Path) -> None:
    tokens = {"2": {"content": "</s>"}, "7": {"content": "<|eot_id|>"}}
    tokenizer = {"eos_token": {"content": "</s>"}, "added_tokens_decoder": tokens}
    save(tmp_path, config=LLAMA, tokenizer_config=tokenizer, generation_config={"eos_token_id": [7, 2]})
    assert local_model(tmp_path).stop_tokens == ("<|eot_id|>", "</s>")
    save(tmp_path, generation_config={"eos_token_id": 7})
    assert local_model(tmp_path).stop_tokens == ("<|eot_id|>",)
    save(tmp_path, generation_config={})
    assert local_model(tmp_path).stop_tokens == ("</s>",)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "config.json cannot be read: No such file"),
        ({"config": "{"}, "config.json is not valid JSON"),
        ({"config": []}, "config.json holds no JSON object"),
        ({"config": LLAMA, "tokenizer_config": "{"}, "tokenizer_config.json is not valid JSON"),
        (
            {"config": LLAMA, "tokenizer_config": {"added_tokens_decoder": 3}},
            "`added_tokens_decoder` in tokenizer_config.json is no table",
        ),
        ({"config": {"model_type": "mamba"}}, "'mamba' is not one of the supported"),
    ],
)
def test_an_unusable_folder_says_why(tmp_path: Path, files: dict, words: str) -> None:
    with pytest.raises(UnsupportedConfig, match=words):
        local_model(save(tmp_path, **files))


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(UnsupportedConfig, match="it is a pipe or a device"):
        local_model(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").symlink_to("/dev/zero")
    with pytest.raises(UnsupportedConfig, match="it is a pipe or a device"):
        local_model(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"), [(" " * (17 * 2**20), "it is larger than 16 MiB"), ("[" * 100_000, "nests too deeply")]
)
def test_a_config_without_bounds_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UnsupportedConfig, match=words):
        local_model(tmp_path)


END = "<|im_end|>"


@pytest.mark.parametrize(
    ("files", "has"),
    [
        ({"tokenizer_config": {"added_tokens_decoder": {"7": {"content": END}}}}, True),
        ({"tokenizer_config": {"eos_token": END}}, True),
        ({"tokenizer_config": {"extra_special_tokens": [END]}}, True),
        ({"tokenizer_config": {"additional_special_tokens": [{"content": END}]}}, True),
        ({"added_tokens": {END: 7}}, True),
        ({"tokenizer": {"added_tokens": [{"id": 7, "content": END}]}}, True),
        ({"tokenizer": {"added_tokens": [{"id": 7, "content": "</s>"}], "model": {"vocab": {"a": 0}}}}, False),
        ({"tokenizer": {"model": {"vocab": [["a", -1.0]]}}, "tokenizer_config": {"chat_template": END}}, False),
        ({"tokenizer": {"model": {"vocab": {END: 0}}}}, None),
        ({"tokenizer": {"model": {"vocab": [[END, 0.0]]}}}, None),
        ({"tokenizer": {"model": "nope", "added_tokens": "nope"}}, False),
        (
            {"tokenizer": {"model": {"vocab": 3}, "added_tokens": 3}, "tokenizer_config": {"extra_special_tokens": 3}},
            False,
        ),
        ({"tokenizer": "not JSON"}, None),
        ({"tokenizer_config": {"eos_token": "</s>"}}, None),
        ({}, None),
    ],
)
def test_a_token_is_looked_for_in_every_file_of_a_tokenizer(tmp_path: Path, files: dict, has: bool | None) -> None:
    assert has_token(save(tmp_path, **files), END) is has
