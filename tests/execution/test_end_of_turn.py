"""The emitted prepare_data.py and rows.py look for the token that ends turns of a chat template of recipec."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compiling import BASES, CHAT, good, texts, with_key
from emitted_modules import load
from tiny_models import save

from recipec.catalog.models import model
from recipec.verify.stand_in import stand_in_tokenizer

pytestmark = pytest.mark.executes

TEXTS = [message["content"] for row in CHAT for message in row["messages"]]


def write_tokenizer(folder: Path, *added: str) -> int:
    """A tokenizer of letters that stops at <|endoftext|>, with added tokens; how many tokens it has."""
    known = model("EleutherAI/pythia-70m")
    assert known is not None
    made = stand_in_tokenizer(known, TEXTS, None, marks=added)
    made.save_pretrained(folder)
    return len(made)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle of a tiny local model that has the token, in the folder that holds data and model, too."""
    size = write_tokenizer(tmp_path / "own", "<|im_start|>", "<|im_end|>")
    save(tmp_path / "own", seed=0, model_type="gpt_neox", hidden_size=32, vocab_size=size, max_position_embeddings=256)
    recipe = with_key(with_key(BASES["cpu"], "model.name", "./own"), "data.template", "chatml")
    recipe = with_key(recipe, "data.examples", None)
    for path, text in texts(good(tmp_path, recipe)).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def prepare(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emitted = load(bundle / "prepare_data.py", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["prepare_data.py", "--data-root", str(bundle)])
    emitted.main()


def test_a_tokenizer_with_the_token_prepares_rows_that_end_with_it(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(bundle, monkeypatch)
    assert (bundle / "data" / "sft" / "train.jsonl").read_text()
    tokenizer = load(bundle / "prepare_data.py", monkeypatch).load_tokenizer(bundle)
    rows = load(bundle / "rows.py", monkeypatch)
    tokens, mask = rows.encode(CHAT[0], tokenizer)
    row = {"labels": [token if learned else -100 for token, learned in zip(tokens, mask, strict=True)]}
    assert rows.ends_with_stop(row, tokenizer)
    *others, last = [token for token in row["labels"] if token != -100]
    assert tokenizer.decode(last) == "<|im_end|>"
    assert not rows.ends_with_stop({"labels": others}, tokenizer)
    begins = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert begins in tokenizer.added_tokens_decoder, "not every added token ends a turn"
    assert not rows.ends_with_stop({"labels": [*others, begins]}, tokenizer)


@pytest.mark.parametrize("added", [(), ("<|im_start|>", "<tool>")])
def test_a_tokenizer_without_the_token_is_refused_before_a_row_is_read(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, added: tuple[str, ...]
) -> None:
    """The plan may rest on another tokenizer, or assume that one has the token."""
    for path in (bundle / "own").glob("*token*"):
        path.unlink()
    write_tokenizer(bundle / "own", *added)
    (bundle / "chat.jsonl").unlink()
    with pytest.raises(SystemExit, match=r"no token <\|im_end\|>.*Set another data.template, or name a model that"):
        prepare(bundle, monkeypatch)


def test_training_gives_the_result_the_end_of_the_template(bundle: Path) -> None:
    assert 'eos_token="<|im_end|>"' in (bundle / "train.py").read_text()
