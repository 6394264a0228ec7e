"""Pretraining makes its model: no file loads weights before the training, and nothing calls it fine-tuned."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from compiling import BASES, good, shape, texts, with_key

BASE = BASES["pretrain"]
OPTIONS = {"revision": "abc", "trust_remote_code": True}


def _calls(text: str, function: str) -> dict[str, ast.Call]:
    """Every call in a function by its target, as code."""
    body = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == function)
    return {ast.unparse(node.func): node for node in ast.walk(body) if isinstance(node, ast.Call)}


def _keywords(call: ast.Call) -> dict[str, str]:
    return {str(keyword.arg): ast.unparse(keyword.value) for keyword in call.keywords}


@pytest.mark.parametrize(("strategy", "dtype"), [("ddp", "float32"), ("fsdp", "float32"), ("zero3", "bfloat16")])
def test_train_makes_the_model_after_its_configuration(tmp_path: Path, strategy: str, dtype: str) -> None:
    text = texts(good(tmp_path, with_key(BASE, "train.strategy", strategy)))["train.py"]
    made = _calls(text, "random_model")
    assert list(made) == ["set_seed", "AutoConfig.from_pretrained", "AutoModelForCausalLM.from_config"]
    wanted = {"dtype": repr(dtype), "attn_implementation": "'sdpa'"}
    assert _keywords(made["AutoModelForCausalLM.from_config"]) == wanted
    trainer = _keywords(_calls(text, "main")["SFTTrainer"])
    assert (trainer["model"], trainer["args"]) == ("random_model(config)", "config")
    assert trainer["processing_class"] == "AutoTokenizer.from_pretrained(MODEL)"
    assert text.index("config = training_config(args)") < text.index("model=random_model(config)")


def test_the_options_of_the_model_reach_both_makers(tmp_path: Path) -> None:
    recipe = with_key(BASE, "model", {"name": "Qwen/Qwen2.5-1.5B", **OPTIONS})
    bundle = texts(good(tmp_path, recipe))
    for file in ("train.py", "evaluate.py"):
        made = _calls(bundle[file], "random_model")
        assert _keywords(made["AutoConfig.from_pretrained"]) == {name: repr(value) for name, value in OPTIONS.items()}
        assert _keywords(made["AutoModelForCausalLM.from_config"])["trust_remote_code"] == "True"


def test_the_baseline_is_random_too(tmp_path: Path) -> None:
    text = texts(good(tmp_path, BASE))["evaluate.py"]
    assert "model = random_model()" in text
    assert "a loss of about ln(vocabulary)" in text


@pytest.mark.parametrize("name", [name for name in BASES if name != "pretrain"])
def test_other_tasks_load_their_model(name: str) -> None:
    bundle = texts(shape(name))
    assert not [path for path, text in bundle.items() if "random_model" in text or "random weights" in text]


def test_random_weights_are_made_not_loaded(tmp_path: Path) -> None:
    readme = texts(good(tmp_path, BASE))["README.md"]
    assert "of weights while they are made" in readme and "while they are loaded" not in readme


def test_the_registry_names_no_base_model(tmp_path: Path) -> None:
    entry = json.loads(texts(good(tmp_path, BASE))["registry/entry.json"])
    assert entry["base_model"] is None and entry["license"] is None, "none of its weights are in the result"
    assert entry["method"] == ["pretrain: random weights, architecture of Qwen/Qwen2.5-1.5B"]


def test_a_folder_needs_no_weights(tmp_path: Path) -> None:
    sizes = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = {"model_type": "llama", "vocab_size": 8_000, "max_position_embeddings": 512, **sizes}
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / "config.json").write_text(json.dumps(config))
    recipe = with_key(with_key(BASE, "model.name", "./shape"), "data.max_length", 512)
    assert 'MODEL = str(DATA_ROOT / "shape")' in texts(good(tmp_path, recipe))["train.py"]
