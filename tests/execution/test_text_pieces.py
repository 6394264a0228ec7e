"""Long texts that preparation cuts up: the pieces are the text again, and have the tokens that are counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, with_key
from test_prepare_data import emitted
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

LONGEST = 24
TEXTS = ["The pump runs. " * 30, "水泵把水送上山，又送下来。" * 12, "🚰 naïve Größe\n\n" * 15, "one", " " * 40]


def bytewise(begins: bool) -> PreTrainedTokenizerFast:
    """Few merges, so that a Chinese character is three tokens; with a token that begins each text."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=280, initial_alphabet=letters, special_tokens=["<s>", "</s>"])
    inner.train_from_iterator(TEXTS[:1], trainer)
    if begins:
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")


def with_prefix() -> PreTrainedTokenizerFast:
    """As of Llama 2: a space before each text, which is a token where the text begins within a word."""
    inner = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>", *(f"<0x{number:02X}>" for number in range(256))]
    inner.train_from_iterator(TEXTS[:1], trainers.BpeTrainer(vocab_size=300, special_tokens=special))
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tokenizer", [bytewise(False), bytewise(True), with_prefix()], ids=["bytes", "begun", "space"])
def test_pieces_are_the_text_again_and_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: PreTrainedTokenizerFast, text: str
) -> None:
    script = emitted(tmp_path, with_key(BASES["text"], "train.packing", False), monkeypatch)
    cut = script.pieces([text], LONGEST, tokenizer)
    assert "".join(cut["text"]) == text
    trained = [len(tokenizer(piece + "</s>")["input_ids"]) for piece in cut["text"]]  # as the trainer reads a piece
    assert trained == cut["length"]
    assert max(trained) <= LONGEST
    assert len(trained) <= 1.5 * sum(trained) / LONGEST + 1  # and they are about as long as they may be
