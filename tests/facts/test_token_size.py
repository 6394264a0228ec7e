"""How long rows are in tokens: by the tokenizer in the model's folder where it is at hand, else at four bytes each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, Tables, good, with_key

from recipec.catalog.models import model
from recipec.dataset import tokenizing
from recipec.simulate.config import config_fields

TEXT = "Pumps move water uphill and downhill again. "


def local(folder: Path, letters: int) -> Tables:
    """A recipe of raw text for a model in a folder, whose tokenizer cuts texts into pieces of so many letters."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    pieces = tokenizers.Regex(f"[\\s\\S]{{1,{letters}}}")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(pieces, behavior="isolated")
    tokenizer.enable_truncation(4)  # as some are saved: it would make every row short
    (folder / "own").mkdir()
    tokenizer.save(str(folder / "own" / "tokenizer.json"))
    (folder / "own" / "config.json").write_text(json.dumps(config_fields(model("Qwen/Qwen2.5-0.5B").architecture)))
    (folder / "own" / "model.safetensors").touch()
    (folder / "long.jsonl").write_text("".join(json.dumps({"text": TEXT * 10 + str(n)}) + "\n" for n in range(50)))
    recipe = with_key(with_key(BASES["text"], "model.name", "./own"), "data", {"train": "long.jsonl"})
    return with_key(recipe, "hardware.gpu", "h100")


def length(folder: Path, recipe: Tables) -> tuple[int, str]:
    (stage,) = json.loads(good(folder, recipe).plan_json)["stages"]
    (found,) = [each for each in stage["decisions"] if each["id"] == "tokens_per_example"]
    return found["value"], found["because"]


@pytest.mark.parametrize("letters", [2, 5])
def test_rows_are_as_long_as_the_tokenizer_of_the_folder_makes_them(tmp_path: Path, letters: int) -> None:
    tokens, because = length(tmp_path, local(tmp_path, letters))
    assert abs(tokens - len(TEXT) * 10 / letters) < 10
    assert f"at {letters} bytes a token, as the model's tokenizer.json cuts 22," in because


def test_without_the_package_a_token_has_four_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = local(tmp_path, 2)
    monkeypatch.setattr(tokenizing, "find_spec", lambda _: None)
    assert length(tmp_path, recipe) == (110, "measured on 50 rows at 4 bytes a token")


def test_a_tokenizer_that_cannot_be_read_measures_nothing(tmp_path: Path) -> None:
    recipe = local(tmp_path, 2)
    (tmp_path / "own" / "tokenizer.json").write_text('{"model": 1}')
    assert length(tmp_path, recipe)[0] == 110


def test_padding_is_not_counted_and_tokens_have_no_bytes(tmp_path: Path) -> None:
    """300 rows of 100 tokens each, padded to 1,000."""
    rows = [{"input_ids": [n, *range(1, 100)] + [0] * 900, "attention_mask": [1] * 100 + [0] * 900} for n in range(300)]
    (tmp_path / "tokens.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(BASES["lora-single"], "data", {"train": "tokens.jsonl", "max_length": 64})
    assert length(tmp_path, recipe) == (100, "measured on 200 rows")
    (stage,) = json.loads(good(tmp_path, recipe).plan_json)["stages"]
    assert [each["because"] for each in stage["decisions"] if each["id"] == "rows_too_long"] == ["of 200 sampled rows"]
