"""text_part.py: the language model of a checkpoint with a vision tower, weight by weight, as every stage loads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key
from tiers import quick_where

from recipec.catalog.models import model
from recipec.verify.stand_in import hub_folder, stand_in_tokenizer, write_stand_in

NAMES = (
    "google/gemma-3-4b-it",
    "google/gemma-4-31B-it",
    "google/gemma-4-12B-it",
    "google/gemma-4-E2B-it",
    "mistralai/Ministral-3-3B-Base-2512",
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
)
NAMES += ("Qwen/Qwen3.5-4B", "meta-llama/Llama-4-Scout-17B-16E-Instruct")
QUICK = ("google/gemma-4-E2B-it", "Qwen/Qwen3.5-4B")
CHAT = BASES["lora-single"]
NODE = {"gpu": "h200", "gpus_per_node": 8}  # for the largest


@pytest.mark.executes
@pytest.mark.parametrize("name", quick_where(QUICK, NAMES))
def test_the_folder_holds_the_language_model_of_the_checkpoint(tmp_path: Path, name: str) -> None:
    known, hub = model(name), hub_folder(tmp_path / "hub", name, None)
    write_stand_in(known, stand_in_tokenizer(known, ["one two three"], "{{ messages }}"), hub)
    bundle = texts(good(tmp_path, with_key(with_key(CHAT, "model.name", name), "hardware", NODE)))
    (tmp_path / "text_part.py").write_text(bundle["text_part.py"], encoding="utf-8")
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    stale = tmp_path / "text-part" / "taken_from.txt"
    stale.parent.mkdir()
    stale.write_text("google/gemma-3-12b-it")
    (stale.parent / "model-00001-of-00005.safetensors").touch()
    for _ in range(2 if name == NAMES[0] else 1):  # the second time it is there
        subprocess.run([sys.executable, "text_part.py"], cwd=tmp_path, env=environment, check=True, timeout=300)
    assert stale.read_text() == name
    assert [file.name for file in stale.parent.glob("*.safetensors")] == ["model.safetensors"]
    _is_the_language_model(hub, tmp_path / "text-part", known.architecture.model_type)


@pytest.mark.executes
def test_so_does_that_of_a_folder_of_the_user(tmp_path: Path) -> None:
    known, folder = model(NAMES[0]), tmp_path / "recipe" / "gemma"
    write_stand_in(known, stand_in_tokenizer(known, ["one two three"], "{{ messages }}"), folder)
    bundle = texts(good(folder.parent, with_key(CHAT, "model.name", "./gemma")))
    (tmp_path / "text_part.py").write_text(bundle["text_part.py"], encoding="utf-8")
    command, beside = [sys.executable, "text_part.py"], {"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    refused = subprocess.run(command, cwd=tmp_path, env=beside, capture_output=True, text=True, timeout=300)
    assert "Set DATA_ROOT to the folder of the recipe." in refused.stderr
    subprocess.run(command, cwd=tmp_path, env=beside | {"DATA_ROOT": "recipe"}, check=True, timeout=300)
    _is_the_language_model(folder, tmp_path / "text-part", known.architecture.model_type)


def _is_the_language_model(checkpoint: Path, made: Path, model_type: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    whole = AutoModelForImageTextToText.from_pretrained(checkpoint)
    part = AutoModelForCausalLM.from_pretrained(made)
    assert part.config.architectures == [type(part).__name__]
    assert part.config.model_type == model_type
    decoder = whole.language_model.model if hasattr(whole, "language_model") else whole.model.language_model
    head = whole.get_output_embeddings()
    wanted, found = decoder.state_dict(), part.model.state_dict()
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[key], found[key]) for key in wanted)
    assert torch.equal(head.weight, part.lm_head.weight)


def test_only_checkpoints_with_more_than_a_language_model_have_the_script(tmp_path: Path) -> None:
    plain = texts(good(tmp_path, CHAT))
    part = texts(good(tmp_path, with_key(CHAT, "model.name", NAMES[0])))
    assert "text_part.py" not in plain
    assert "text_part" not in plain["launch/local.sh"]
    assert 'python "$BUNDLE/text_part.py"' in part["launch/local.sh"]
    assert 'MODEL = str(BUNDLE / "text-part")' in part["train.py"]


def test_a_folder_of_another_revision_is_neither_kept_nor_trained(tmp_path: Path) -> None:
    made = with_key(with_key(CHAT, "model.name", NAMES[0]), "model.revision", "a" * 40)
    bundle, taken_from = texts(good(tmp_path, made)), f'"{NAMES[0]}@{"a" * 40}"'
    assert f"TAKEN_FROM = {taken_from}" in bundle["text_part.py"]
    assert all(f"    wanted = {taken_from}\n" in bundle[name] for name in ("train.py", "evaluate.py"))


def test_the_disk_holds_the_checkpoint_and_the_part() -> None:
    known = model(NAMES[0])
    assert known.params_on_disk == 4_300_000_000 > known.architecture.params
