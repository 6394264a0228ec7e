"""The language model of a checkpoint with a vision tower, read in a folder of the user's or in the Hub's cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, texts, with_key

from recipec.catalog.configs import architecture_from_config
from recipec.catalog.local import local_model
from recipec.catalog.text_parts import TEXT_PARTS, text_config

TINY = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
SILENT: dict[str, dict[str, Any]] = {  # as makers write them: what the class has is left out
    **{name: {"hidden_size": 512, "num_hidden_layers": 12} for name in TEXT_PARTS},
    "mistral3 with ministral3": {"model_type": "ministral3", "hidden_size": 512},
}
CHAT = with_key(BASES["lora-single"], "model.name", "./vision")


@pytest.mark.parametrize("name", SILENT)
def test_what_a_text_config_leaves_out_is_what_its_class_has(tmp_path: Path, name: str) -> None:
    from transformers import AutoConfig

    config = {"model_type": name.partition(" ")[0], "text_config": SILENT[name]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    whole = AutoConfig.from_pretrained(tmp_path)
    whole.save_pretrained(tmp_path / "saved")
    wanted = architecture_from_config(whole.get_text_config().to_dict())
    assert architecture_from_config(text_config(config)) == wanted
    assert local_model(tmp_path / "saved").architecture == wanted


@pytest.mark.parametrize("checkpoint", TEXT_PARTS)
def test_a_folder_of_the_user_is_trained_by_its_language_model(tmp_path: Path, checkpoint: str) -> None:
    folder = written(tmp_path / "vision", {"model_type": checkpoint, "text_config": TINY})
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(2 * 10**9)
    found = good(tmp_path, CHAT)
    assert found.facts.model.architecture.hidden_size == 256
    assert found.facts.model.params_on_disk == 10**9
    script = texts(found)["text_part.py"]
    assert "DATA_ROOT = Path(os" in script
    assert 'MODEL = str(DATA_ROOT / "vision")' in script
    assert 'raise SystemExit(f"No model in {MODEL}. Set DATA_ROOT to the folder of the recipe.")' in script
    assert ("key_mapping=" in script) == bool(TEXT_PARTS[checkpoint])


def test_with_new_tokens_the_language_model_is_what_grows(tmp_path: Path) -> None:
    written(tmp_path / "vision", {"model_type": "gemma3", "text_config": TINY})
    script = texts(good(tmp_path, with_key(CHAT, "model.new_tokens", ["<a b>"])))["vocabulary.py"]
    assert 'MODEL = str(BUNDLE / "text-part")' in script
    assert "DATA_ROOT" not in script


def test_so_is_a_copy_in_the_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    entry = tmp_path / "hub" / "models--acme--vision"
    (entry / "refs").mkdir(parents=True)
    (entry / "refs" / "main").write_text("a" * 40)
    written(entry / "snapshots" / ("a" * 40), {"model_type": "gemma3", "text_config": TINY})
    bundle = texts(good(tmp_path, with_key(CHAT, "model.name", "acme/vision")))
    assert 'MODEL = "acme/vision"' in bundle["text_part.py"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "gemma3"}, "no table text_config"),
        ({"model_type": "mistral3", "text_config": TINY, "quantization_config": {"quant_method": "fp8"}}, "quantized"),
        ({"model_type": "mistral3", "text_config": {"model_type": "pixtral"}}, "model_type 'pixtral'"),
    ],
)
def test_what_cannot_be_taken_out_is_refused(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    written(tmp_path / "vision", config)
    found = compiled(tmp_path, CHAT)
    assert codes(found) == ["E0306"]
    assert said in found.diagnostics[0].labels[0].message


def test_one_that_only_runs_or_starts_random_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "vision", {"model_type": "gemma3", "text_config": TINY})
    distilled = with_key(BASES["distill"], "alignment.teacher", "./vision")
    for recipe in (distilled, with_key(BASES["pretrain"], "model.name", "./vision")):
        assert "E0401" in codes(compiled(tmp_path, recipe))


def written(folder: Path, config: dict[str, Any]) -> Path:
    """A model folder with a configuration and an empty tokenizer."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    return folder
