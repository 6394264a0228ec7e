"""New tokens: the model that vocabulary.py writes, row by row, what trains of it, and the merged result."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import LOADED, WORDS, save, tokenizer

pytestmark = pytest.mark.executes
TOKENS = ["w3-w9", " w4 w5", "<|new|>"]
MODELS = {"untied": ("llama", "meta-llama/Llama-3.1-8B"), "tied": ("qwen3", "Qwen/Qwen3-0.6B")}


def extended(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch, free: int = 0) -> ModuleType:
    """The emitted scripts in `folder`, after vocabulary.py has extended a model with so many rows of no token."""
    type, name = MODELS[kind]
    (folder / "recipe").mkdir()
    recipe = with_key(with_key(BASES["lora-single"], "model.name", name), "model.new_tokens", TOKENS)
    for path, text in texts(good(folder / "recipe", recipe)).items():
        if "/" not in path:
            (folder / path).write_text(text, encoding="utf-8")
    rows = {"vocab_size": WORDS + free, "tie_word_embeddings": kind == "tied"}
    save(folder / "base", 0, model_type=type, hidden_size=32, head_dim=16, **rows)
    tokenizer().save_pretrained(folder / "base")
    module = load(folder / "vocabulary.py", monkeypatch)
    monkeypatch.setattr(module, "MODEL", str(folder / "base"))
    module.main()
    return module


def matrices(folder: Path) -> list[Any]:
    """The embedding and the head of the model in a folder."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, **LOADED)
    return [model.get_input_embeddings().weight, model.get_output_embeddings().weight]


@pytest.mark.parametrize(("kind", "free", "rows"), [("untied", 0, 128), ("tied", 0, 128), ("untied", 9, WORDS + 9)])
def test_a_new_token_begins_as_the_mean_of_its_former_tokens(
    tmp_path: Path, kind: str, free: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from transformers import AutoTokenizer

    extended(tmp_path, kind, monkeypatch, free)
    folder = tmp_path / "extended-model"
    numbers = json.loads((folder / "new_tokens.json").read_text(encoding="utf-8"))
    assert list(numbers.items()) == [(token, WORDS + place) for place, token in enumerate(TOKENS)]
    before, grown = AutoTokenizer.from_pretrained(tmp_path / "base"), AutoTokenizer.from_pretrained(folder)
    assert grown("w7 <|new|>w8 w4 w5")["input_ids"] == [7, numbers["<|new|>"], 8, numbers[" w4 w5"]]
    for old, new in zip(matrices(tmp_path / "base"), matrices(folder), strict=True):
        assert len(new) == rows and torch.equal(new[:WORDS], old[:WORDS])
        for token, number in numbers.items():
            pieces = before(token, add_special_tokens=False)["input_ids"]
            assert torch.allclose(new[number], old[pieces].mean(0)), token
        assert torch.allclose(new[WORDS + 9 :], old.mean(0).expand(rows - WORDS - 9, -1)) or free


def test_a_new_token_is_its_very_text_whatever_the_tokenizer_makes_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenizers import normalizers
    from transformers import AutoTokenizer

    module = extended(tmp_path, "tied", monkeypatch)
    (tmp_path / "new_tokens.txt").write_text("<W9>\n", encoding="utf-8")
    lowering = AutoTokenizer.from_pretrained(tmp_path / "base")
    lowering.backend_tokenizer.normalizer = normalizers.Lowercase()
    found = module.with_new_tokens(lowering)
    assert WORDS in found("w7<W9>W8")["input_ids"] and WORDS not in found("w7<w9>W8")["input_ids"]


def test_tokens_that_the_tokenizer_has_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = extended(tmp_path, "tied", monkeypatch)
    (tmp_path / "new_tokens.txt").write_text("<|new|>\nw7\n<pad>\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="one token already: 'w7', '<pad>'"):
        module.main()


def test_the_folder_is_made_anew_for_other_tokens_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = extended(tmp_path, "tied", monkeypatch)
    weights = tmp_path / "extended-model" / "model.safetensors"
    weights.unlink()
    module.main()
    assert not weights.exists(), "what is there of the same model and tokens is not made again"
    (tmp_path / "new_tokens.txt").write_text("<|other|>\n", encoding="utf-8")
    module.main()
    assert weights.exists() and [*json.loads((weights.parent / "new_tokens.json").read_text())] == ["<|other|>"]


@pytest.mark.parametrize("kind", MODELS)
def test_the_rows_of_new_tokens_train_alone_and_merge(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the configuration of train.py, on TRL's own loss; merged, each other row is that of the base."""
    import torch
    from datasets import Dataset
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer

    extended(tmp_path, kind, monkeypatch)
    folder, train = tmp_path / "extended-model", load(tmp_path / "train.py", monkeypatch)
    numbers = [*train.new_tokens().values()]
    rows = Dataset.from_list([{"prompt": "w3 w9", "completion": "w7 <|new|>w8 w4 w5 w3-w9 w11"}] * 4)
    arguments = {"max_steps": 3, "learning_rate": 0.05, "bf16": False, "use_cpu": True, "report_to": "none"}
    arguments |= {"save_strategy": "no", "model_init_kwargs": LOADED, "activation_checkpointing": True}
    config = SFTConfig(output_dir=str(tmp_path / "outputs"), dataloader_pin_memory=False, **arguments)
    trainer = SFTTrainer(model=str(folder), args=config, train_dataset=rows, peft_config=train.lora_config())
    trainer.model.get_output_embeddings().bias = None
    train.check_new_tokens(trainer.train_dataset)
    trainer.train()
    trainer.save_model()
    before = matrices(folder)
    trained = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "outputs", **LOADED)
    tokens = torch.tensor([[3, 9, 7, *numbers, 11]])
    with torch.no_grad():
        expected = trained(input_ids=tokens).logits
    trained.merge_and_unload().save_pretrained(tmp_path / "merged")
    for old, new in zip(before, matrices(tmp_path / "merged"), strict=True):
        moved = (old != new).any(1).nonzero().flatten().tolist()
        assert moved == numbers
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", **LOADED)
    with torch.no_grad():
        assert torch.allclose(merged(input_ids=tokens).logits, expected, atol=1e-4)


def test_rows_without_the_new_tokens_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from datasets import Dataset

    extended(tmp_path, "untied", monkeypatch)
    check = load(tmp_path / "train.py", monkeypatch).check_new_tokens
    with pytest.raises(SystemExit, match=r"No training row has one of the 3 new tokens, such as 'w3-w9'"):
        check(Dataset.from_dict({"input_ids": [[3, 4], [5]]}))
    check(Dataset.from_dict({"input_ids": [[3, WORDS], [WORDS + 2]]}))
    assert "No training row has 1 of the 3 new tokens: ' w4 w5'" in capsys.readouterr().out
