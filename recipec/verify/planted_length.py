"""How much text makes a planted row nearly as long as the plan allows, with the tokenizer that the run has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recipec.verify.bundle import BundleStage
from recipec.verify.rows import TOOL
from recipec.verify.sandbox import Sandbox
from recipec.verify.stand_in import models_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

WORDS = ("certainly", "elephant", "feather", "bridge", "number", "and", "the", "a")
MOST_TOKENS = 1_500  # of the text: what cuts longer ones cuts these, too
MOST_AMONG_REPLAYED = 300  # of 64 rows of about 30 tokens, 4 are long: with 0.3 replayed, these need 60 general rows
FILLED = 0.75  # of the room that is left: each tokenizer has its surprises
_TEMPLATE = "chat_template.jinja"
_AROUND_TURN = 8  # tokens that a template writes around a turn
_LEAST = 8  # tokens of text that are worth it
_PAIR = 2  # messages of one question and its answer; longer conversations ask it twice


def filler_for(sandbox: Sandbox, stage: BundleStage, row: Mapping[str, Any], max_length: int) -> str:
    """Text that fits into one part of a row beside what it holds; none where there is no room.

    Rows among which general ones are replayed stay so short that a few dozen general rows suffice for their share.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models_of(sandbox.bundle)[0].folder(sandbox.root))
    for folder in (sandbox.bundle.root, sandbox.bundle.root / stage.folder):
        if (own := folder / _TEMPLATE).is_file():
            tokenizer.chat_template = own.read_text(encoding="utf-8")
    turns = next((len(value) for value in row.values() if isinstance(value, list)), 0)
    room = max_length - _tokens(tokenizer, json.dumps(row)) - _around(tokenizer, row) - turns * _AROUND_TURN
    most = MOST_AMONG_REPLAYED if stage.decisions.get("replay_rows") else MOST_TOKENS
    return _text(tokenizer, min(most, int(FILLED * room)) // (2 if turns > _PAIR else 1))


def _around(tokenizer: Tokenizer, row: Mapping[str, Any]) -> int:
    """The tokens that a template writes around a question and its answer, and around tools."""
    if not tokenizer.chat_template:
        return _AROUND_TURN
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    tools = [TOOL] if row.get("tools") else None
    return _tokens(tokenizer, tokenizer.apply_chat_template(turns, tokenize=False, tools=tools))


def _text(tokenizer: Tokenizer, most: int) -> str:
    """The longest text of so many tokens that repeats one word."""
    costs = {word: _tokens(tokenizer, f"x {word}") - _tokens(tokenizer, "x") for word in WORDS}
    word = max(costs, key=lambda word: len(word) / max(costs[word], 1))
    return "" if most < _LEAST else " ".join([word] * (most // max(costs[word], 1)))


def _tokens(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])
