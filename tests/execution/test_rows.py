"""The emitted rows.py of every kind of row: what it says is learned is what the row teaches."""

from __future__ import annotations

import json
from copy import copy
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, Tables, good, texts, with_key
from datasets import Dataset
from emitted_modules import load

pytestmark = pytest.mark.executes

TEMPLATE = Path(__file__).parents[2] / "templates" / "chat" / "plain.jinja.j2"
SAID = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]
# base, a row of that kind, arguments of encode, what is learned of it, what it opens with
KINDS: dict[str, tuple[Tables, dict[str, Any], tuple[str, ...], str, str]] = {
    "text": (BASES["text"], {"text": "A pump moves water."}, (), "A pump moves water.<end>", "A pump "),
    "chat": (BASES["cpu"], {"messages": SAID}, (), " Because.<end>", "User: Why?\nAssistant:"),
    "completion": (
        BASES["lora-ddp"],
        {"prompt": SAID[:1], "completion": SAID[1:]},
        (),
        " Because.<end>",
        "User: Why?\nAssistant:",
    ),
    "unpaired": (
        BASES["kto"],
        {"prompt": SAID[:1], "completion": SAID[1:], "label": False},
        (),
        " Because.<end>",
        "User: Why?\nAssistant:",
    ),
    "pairs": (
        BASES["dpo-full"],
        {"prompt": SAID[:1], "chosen": SAID[1:], "rejected": [{"role": "assistant", "content": "No."}]},
        ("rejected",),
        " No.<end>",
        "User: Why?\nAssistant:",
    ),
}


@cache
def tokenizer():
    """One token for each byte, with the bundle's plain chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    found = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
    found.chat_template = TEMPLATE.read_text().replace("{% raw %}", "").replace("{% endraw %}", "")
    return found


def rows_of(folder: Path, recipe: Tables, monkeypatch: pytest.MonkeyPatch, path: str = "rows.py") -> ModuleType:
    script = folder / "rows.py"
    script.write_text(texts(good(folder, recipe))[path])
    return load(script, monkeypatch)


def with_text(value: Any, text: str) -> Any:
    """The same with this for every text."""
    if isinstance(value, list):
        return [turn | {"content": text} for turn in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("text", ["2024-01-31", "2024-01-31 11:00", "123", "null", '{"a": 1}', "true"])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_all_look_like_something_else_are_read_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, text: str
) -> None:
    """datasets takes such a column for points in time, which a template would write as `<datetime>`."""
    recipe, row, *_ = KINDS[kind]
    written = {name: with_text(value, text) for name, value in row.items()} | {"length": 9}
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(written)}\n" * 3)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    assert rows_of(tmp_path, recipe, monkeypatch).prepared(tmp_path / "train.jsonl")[:]["length"] == [9] * 3
    assert rows_of(tmp_path, recipe, monkeypatch).prepared(tmp_path / "train.jsonl")[0] == written


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learned_is_what_the_row_teaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    recipe, row, arguments, learned, opening = KINDS[kind]
    rows, words = rows_of(tmp_path, recipe, monkeypatch), tokenizer()
    tokens, mask = rows.encode(row, words, *arguments)
    assert len(tokens) == len(mask)
    assert words.decode([token for token, counts in zip(tokens, mask, strict=True) if counts]) == learned
    assert words.decode(rows.opening(row, words)).startswith(opening)
    assert tokens[: len(rows.opening(row, words))] == rows.opening(row, words)


@pytest.mark.parametrize("kind", ["completion", "unpaired", "pairs"])
def test_an_answer_begins_where_the_conversation_leaves_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Some templates end the prompt with an empty thought that they do not write before an answer."""
    recipe, row, arguments, learned, _ = KINDS[kind]
    rows, words = rows_of(tmp_path, recipe, monkeypatch), copy(tokenizer())
    words.chat_template = words.chat_template.rstrip() + "{% if add_generation_prompt %}<thought></thought>{% endif %}"
    tokens, mask = rows.encode(row, words, *arguments)
    told = words.decode([token for token, counts in zip(tokens, mask, strict=True) if counts])
    assert told.strip() == learned.strip()


def test_labels_are_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, words = rows_of(tmp_path, BASES["cpu"], monkeypatch), tokenizer()
    given, learned = words("Why? ")["input_ids"], words("So.<end>\n")["input_ids"]
    row = {"input_ids": given + learned, "labels": [-100] * len(given) + learned}
    assert rows.trained_tokens(Dataset.from_list([row, row])) == 2 * len(learned)
    assert rows.trained_text(row, words) == "Why? [[So.<end>\n]]"
    assert rows.ends_with_stop(row, words), "white space behind the stop token is no answer"
    assert not rows.ends_with_stop(row | {"labels": row["labels"][:-2]}, words)


def test_pairs_are_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, words = rows_of(tmp_path, BASES["dpo-full"], monkeypatch), tokenizer()
    said = {"prompt": "Why?", "chosen": "So.<end>", "rejected": "No."}
    row = {f"{part}_ids": words(text)["input_ids"] for part, text in said.items()}
    assert rows.trained_tokens(Dataset.from_list([row])) == 4 + 3
    assert rows.trained_text(row, words) == "Why?\n  [[chosen]] So.<end>\n  [[rejected]] No."
    assert rows.ends_with_stop(row, words)
    assert not rows.ends_with_stop(row | {"chosen_ids": row["rejected_ids"]}, words)


def test_labeled_answers_are_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, words = rows_of(tmp_path, BASES["kto"], monkeypatch), tokenizer()
    row = {"prompt_ids": words("Why?")["input_ids"], "completion_ids": words("So.<end>")["input_ids"], "label": True}
    assert rows.trained_tokens(Dataset.from_list([row, row])) == 8
    assert rows.trained_text(row, words) == "Why?\n  [[desirable]] So.<end>"
    assert rows.trained_text(row | {"label": False}, words) == "Why?\n  [[undesirable]] So.<end>"
    assert rows.ends_with_stop(row, words)
    assert not rows.ends_with_stop(row | {"completion_ids": row["completion_ids"][:-1]}, words)


def test_scored_pairs_are_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, words = rows_of(tmp_path, BASES["reward"], monkeypatch), tokenizer()
    row = {f"{part}_ids": words(text)["input_ids"] for part, text in (("chosen", "Why? So."), ("rejected", "Why?"))}
    assert rows.trained_tokens(Dataset.from_list([row])) == 8 + 4
    assert rows.trained_text(row, words) == "[[chosen]] Why? So.\n[[rejected]] Why?"
    assert not hasattr(rows, "ends_with_stop"), "nobody learns to stop"


def test_text_has_no_turn_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(tmp_path, BASES["text"], monkeypatch)
    assert not hasattr(rows, "ends_with_stop"), "a text has no turn to end"


@pytest.mark.parametrize("folder", ["stages/1-sft", "stages/2-dpo"])
def test_every_stage_can_be_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    assert callable(rows_of(tmp_path, BASES["sft-dpo"], monkeypatch, f"{folder}/rows.py").encode)


def test_evaluation_and_checks_are_the_same_for_all_kinds(tmp_path: Path) -> None:
    """What differs between kinds of rows is in rows.py alone."""
    chat = texts(good(tmp_path / "chat", BASES["lora-single"]))
    turns = texts(good(tmp_path / "turns", with_key(BASES["lora-single"], "data.train", "instructions.jsonl")))
    assert chat["rows.py"] != turns["rows.py"]
    assert chat["evaluate.py"] == turns["evaluate.py"]
    assert chat["preflight.py"] == turns["preflight.py"]
