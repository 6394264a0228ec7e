"""What the Hub's cache has of a model counts, whatever the recipe says it is like; some shapes stand for no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, with_key

from recipec.catalog.models import model
from recipec.catalog.refused import why_no_type
from recipec.catalog.text_parts import TEXT_PARTS

LIKE = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128264,
    "max_position_embeddings": 131072,
}
CHAT = with_key(BASES["lora-single"], "model", {"name": "acme/own", "like": LIKE})
ALONE = with_key(CHAT, "model", {"name": "acme/own"})
QWEN_VL = {"model_type": "qwen2_5_vl"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache keeps the files of acme/own."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    entry = tmp_path / "hub" / "models--acme--own"
    folder = entry / "snapshots" / ("a" * 40)
    folder.mkdir(parents=True)
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text(folder.name)
    return folder


def having(cache: Path, config: dict[str, Any]) -> None:
    (cache / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("other", "own", "its"),
    [
        (
            {"hidden_size": 8192, "num_hidden_layers": 80},
            "hidden_size 8192, num_hidden_layers 80",
            "hidden_size 4096, num_hidden_layers 32",
        ),
        ({"model_type": "mistral"}, "model_type mistral", "model_type llama"),
        ({"tie_word_embeddings": True}, "tie_embeddings True", "tie_embeddings False"),
    ],
)
def test_what_the_cache_has_contradicts_what_a_model_is_said_to_be_like(
    cache: Path, tmp_path: Path, other: dict[str, Any], own: str, its: str
) -> None:
    having(cache, LLAMA | other)
    found = compiled(tmp_path, CHAT)
    assert codes(found) == ["E0401"]
    (finding,) = found.diagnostics
    said, read = (label.message for label in finding.labels)
    assert said.startswith(its)
    assert f"config.json of commit {'a' * 12} in the cache of the Hugging Face Hub: {own}" in read
    assert "remove `model.like`" in finding.help[0]
    assert good(tmp_path, ALONE).facts.model.source in read


def test_what_agrees_is_read_in_the_cache_and_the_rest_is_as_the_model_that_it_is_like(
    cache: Path, tmp_path: Path
) -> None:
    having(cache, LLAMA)
    found = good(tmp_path, CHAT).facts.model
    assert (found.architecture.vocab_size, found.template_family) == (128264, model(LIKE).template_family)
    assert "config.json of commit" in found.source


def test_what_cannot_be_read_is_as_the_recipe_says(cache: Path, tmp_path: Path) -> None:
    having(cache, {"model_type": "of_somebody"})
    assert good(tmp_path, CHAT).facts.model.architecture == model(LIKE).architecture


@pytest.mark.parametrize("recipe", [CHAT, ALONE])
def test_a_type_that_no_shape_stands_for_is_refused_without_advice_to_write_like(
    cache: Path, tmp_path: Path, recipe: dict[str, Any]
) -> None:
    having(cache, QWEN_VL)
    found = compiled(tmp_path, recipe)
    assert codes(found) == ["E0301"]
    help = found.diagnostics[0].help
    assert not [line for line in help if "add `like`" in line]
    assert "language model is trained on text, such as" in help[0]


def test_the_same_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    having(tmp_path / "own", QWEN_VL)
    found = compiled(tmp_path, with_key(ALONE, "model.name", "./own"))
    assert codes(found) == ["E0306"]
    assert "language model is trained on text, such as" in found.diagnostics[0].help[0]


@pytest.mark.parametrize(
    ("name", "reads"),
    [("acme/Big-VL-7B", True), ("acme/big_vision", True), ("acme/Advlaw-7B", False), ("vision-lab/text-7b", False)],
)
def test_a_name_that_says_that_images_are_read_leads_to_the_checkpoints_with_text(
    tmp_path: Path, name: str, reads: bool
) -> None:
    help = compiled(tmp_path, with_key(ALONE, "model.name", name)).diagnostics[0].help
    assert bool([line for line in help if "trained on text, such as" in line]) == reads
    assert bool([line for line in help if "`like`" in line]) != reads


@pytest.mark.parametrize(("name", "reads"), [("zai-org/GLM-4.5V", True), ("zai-org/GLM-4.7", False)])
def test_what_reads_images_and_is_not_built_leads_to_them_by_its_name(tmp_path: Path, name: str, reads: bool) -> None:
    help = compiled(tmp_path, with_key(ALONE, "model.name", name)).diagnostics[0].help
    assert bool([line for line in help if "trained on text, such as" in line]) == reads


def test_a_teacher_is_not_led_to_checkpoints_that_no_teacher_can_be(tmp_path: Path) -> None:
    for name in ("org/teacher-vl-7b", "zai-org/GLM-4.5V"):
        found = compiled(tmp_path, with_key(BASES["distill"], "alignment.teacher", name)).diagnostics
        assert [one.code for one in found] == ["E0301"]
        assert not [line for line in found[0].help if "trained on text, such as" in line]


def test_every_type_that_the_class_of_language_models_does_not_load_is_known() -> None:
    from transformers.models.auto import modeling_auto as auto

    writing = {
        *auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        *auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
        *auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
    others = writing - {*auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} - {*TEXT_PARTS}
    assert not [name for name in others if not why_no_type(name)]
    wrongly = [name for name in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if "AutoModel" in (why_no_type(name) or "")]
    assert not wrongly
