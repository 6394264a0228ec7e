"""How many rows the data have and how long they are, from samples of sources that count by their rows and weights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, good, with_key


def chat(turns: int, words: int = 1) -> dict[str, Any]:
    said = (("user", "Why? " * words), ("assistant", "Because. " * words))
    return {"messages": [{"role": role, "content": text} for _ in range(turns) for role, text in said]}


def written(rows: Iterable[dict[str, Any]], first: int = 0) -> str:
    """The rows as lines, each with a number in place of the first word that is asked: none repeats another."""
    lines = (json.dumps(row) + "\n" for row in rows)
    return "".join(re.sub(r'"(Why\?|Say |\?)', f'"{n:04x}', line, count=1) for n, line in enumerate(lines, first))


def decided(folder: Path, files: dict[str, list[dict[str, Any]]], sources: list[Any], **keys: Any) -> dict[str, Any]:
    for place, (name, rows) in enumerate(files.items()):
        (folder / name).write_text(written(rows, 30_000 * place))
    recipe: Tables = {**BASES["lora-single"], "data": {"train": sources}}
    for key, value in keys.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return {id: decision.value for id, decision in good(folder, recipe).plan.stages[0].decisions.items()}


def test_samples_count_by_the_rows_of_their_sources(tmp_path: Path) -> None:
    """The first 200 rows of the one stand for 20,000, those of the other for 50."""
    files = {"long.jsonl": [chat(1, 500)] * 50, "short.jsonl": [chat(1)] * 20_000}
    found = decided(tmp_path, files, ["long.jsonl", "short.jsonl"])
    assert found["examples"] == 20_000
    assert found["tokens_per_example"] < 30 and found["tokens_p99"] < 30


def test_answers_count_by_the_rows_of_their_sources(tmp_path: Path) -> None:
    files = {"one.jsonl": [chat(1)] * 200, "ten.jsonl": [chat(10)] * 20_000}
    found = decided(tmp_path, files, ["one.jsonl", "ten.jsonl"], model__name="tiiuae/Falcon3-1B-Instruct")
    assert found["examples"] == 200_000
    marked = decided(tmp_path, files, ["one.jsonl", "ten.jsonl"], model__name="meta-llama/Llama-3.2-1B-Instruct")
    assert marked["examples"] == 20_000, "a conversation whose answers are marked stays one row"


def test_rows_count_as_their_sources_weigh(tmp_path: Path) -> None:
    sources = [{"path": "a.jsonl", "weight": 0.1}, {"path": "b.jsonl", "weight": 3}]
    files = {name: [chat(1)] * 150 for name in ("a.jsonl", "b.jsonl")}
    assert decided(tmp_path, files, sources)["examples"] == 460


@pytest.mark.parametrize(("weight", "rows", "share"), [(20, 2_000, 0.1), (0.05, 60_000, 0.0083)])
def test_rows_are_held_out_of_those_that_there_are(tmp_path: Path, weight: float, rows: int, share: float) -> None:
    """However often they are learned."""
    found = decided(tmp_path, {"a.jsonl": [chat(1)] * rows}, [{"path": "a.jsonl", "weight": weight}])
    assert (found["eval_fraction"], found["test_fraction"]) == (share, share)


def test_stated_rows_are_those_before_weights(tmp_path: Path) -> None:
    """Of 20,000 rows, each learned four times, about five hundred are held out."""
    source = [{"path": "a.jsonl", "weight": 4}]
    found = decided(tmp_path, {"a.jsonl": [chat(1)] * 100}, source, data__examples=20_000)
    assert (found["source_rows"], found["examples"], found["eval_fraction"]) == (20_000, 80_000, 0.025)


def test_a_source_states_its_own_size(tmp_path: Path) -> None:
    """Whatever [data] says of the others; exact, and of the longest rows nothing is known."""
    source = {"path": "a.jsonl", "examples": 12_345, "tokens_per_example": 777}
    keys = {"data__examples": 80_000, "data__tokens_per_example": 90}
    found = decided(tmp_path, {"a.jsonl": [chat(1)] * 20}, [source], **keys)
    assert (found["examples"], found["tokens_per_example"], found["tokens_p99"]) == (12_345, 777, None)


def test_sources_that_state_their_sizes_are_added_up(tmp_path: Path) -> None:
    stated = [{"path": "a.jsonl", "examples": 3_000, "tokens_per_example": 900}]
    stated += [{"hub": "org/rows", "take": 1_000, "tokens_per_example": 100}]
    found = decided(tmp_path, {"a.jsonl": [chat(1)] * 200}, stated, data__format="chat")
    assert (found["examples"], found["tokens_per_example"]) == (4_000, 700)
    more = decided(tmp_path, {"b.jsonl": [chat(1)] * 1_000}, [*stated, {"path": "b.jsonl"}], data__format="chat")
    assert more["examples"] == 5_000 and 550 < more["tokens_per_example"] < 580


@pytest.mark.parametrize(
    ("stated", "others", "key"),
    [(None, 1, "data.examples"), (9_000, 1, "its key `examples`"), (9_000, 2, "the key `examples` of each")],
)
def test_the_key_that_corrects_assumed_rows_goes_with_the_others(
    tmp_path: Path, stated: int | None, others: int, key: str
) -> None:
    """Beside a source that states its rows, `data.examples` is an error."""
    first = {"hub": "org/a", "tokens_per_example": 300} | ({"examples": stated} if stated else {})
    rest = [{"hub": f"org/{name}", "tokens_per_example": 300} for name in "bc"[:others]]
    recipe = with_key(BASES["lora-single"], "data", {"train": [first, *rest], "format": "chat"})
    because = good(tmp_path, recipe).plan.stages[0].decisions["examples"].because
    assert f", which {key} can correct" in because


def test_columns_that_nothing_reads_have_no_length(tmp_path: Path) -> None:
    rows = [chat(1) | {"raw_html": "<p>" * 3_000}] * 200
    found = decided(tmp_path, {"a.jsonl": rows}, ["a.jsonl"], data__ignore=["raw_html"])
    assert found["tokens_per_example"] < 30


def test_a_long_conversation_is_measured_in_one_pass(tmp_path: Path) -> None:
    """Each answer was measured with all that stands before it: minutes for ten thousand turns."""
    found = decided(tmp_path, {"a.jsonl": [chat(4_000)] * 20}, ["a.jsonl"], data__max_length=1024)
    assert found["answers_per_row"] == 4_000


def test_the_words_of_the_chat_template_are_counted(tmp_path: Path) -> None:
    """Around every message: 40 short ones have more of them than of their own."""
    found = decided(tmp_path, {"a.jsonl": [chat(20)] * 50}, ["a.jsonl"])
    assert found["tokens_per_example"] >= 40 * 5


def test_rows_of_another_format_count_with_their_own_columns(tmp_path: Path) -> None:
    tasks = [{"instruction": "Say " * 200, "output": "Yes. " * 200}] * 100
    found = decided(tmp_path, {"a.jsonl": [chat(1)] * 100, "b.jsonl": tasks}, ["a.jsonl", "b.jsonl"])
    assert found["examples"] == 200 and 200 < found["tokens_per_example"] < 260
    unmarked = decided(tmp_path, {}, ["a.jsonl", "b.jsonl"], model__name="tiiuae/Falcon3-1B-Instruct")
    assert unmarked["examples"] == 200, "each row has one answer"


def test_tools_are_counted_as_the_template_writes_them(tmp_path: Path) -> None:
    """With the names of their fields and the signs between them."""
    tool = {"name": "find", "parameters": {"type": "object", "properties": {f"p{n}": {} for n in range(400)}}}
    found = decided(tmp_path, {"a.jsonl": [chat(1) | {"tools": [tool]}] * 50}, ["a.jsonl"])
    assert found["tokens_per_example"] > 1_000


def test_rows_that_are_not_taken_do_not_count(tmp_path: Path) -> None:
    rows = [chat(1)] * 30 + [chat(1, 500)] * 70
    files = {"a.jsonl": rows, "b.jsonl": rows}
    found = decided(tmp_path, files, [{"path": "a.jsonl", "take": 30}, {"path": "b.jsonl", "take": 999}])
    assert found["examples"] == 130
    first = decided(tmp_path, {}, [{"path": "a.jsonl", "take": 30}])
    assert first["tokens_p99"] < 30


def test_incomplete_rows_are_left_out_of_those_that_are_taken(tmp_path: Path) -> None:
    """Preparation takes rows first, and reads no further row for an incomplete one."""
    pairs = [{"prompt": "Why?", "completion": "So." if n % 10 else None} for n in range(300)]
    keys = {"data__incomplete": "skip"}
    taken = decided(tmp_path, {"a.jsonl": pairs}, [{"path": "a.jsonl", "take": 30}], **keys)
    assert taken["examples"] == 27
    assert decided(tmp_path, {}, [{"path": "a.jsonl"}], **keys)["examples"] == 270
    assert decided(tmp_path, {}, [{"path": "a.jsonl", "take": 999}], **keys)["examples"] == 270


def test_what_is_taken_of_the_hub_is_known(tmp_path: Path) -> None:
    found = decided(tmp_path, {}, [{"hub": "org/rows", "take": 3_000}], data__format="chat")
    assert found["examples"] == 3_000


# A text and how many of its letters make a token at least, in the vocabularies of current models: English 3.94 letters
# (Llama 3, arXiv 2407.21783, section 3.2); a letter of Chinese, Japanese or Korean is often a token of its own.
SCRIPTS = {
    "English": ("The weather is fine today, so we take a walk in the park. ", 3.9),
    "Chinese": ("今天天气很好，我们一起去公园散步吧。", 1.4),
    "Japanese": ("今日は天気がいいので、公園に散歩に行きましょう。", 1.4),
    "Korean": ("오늘은날씨가좋아서공원에산책하러갑시다", 1.4),
    "Russian": ("Сегодня хорошая погода, и мы идём гулять в парк. ", 2.4),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_tokens_of_a_script_follow_its_bytes(tmp_path: Path, script: str) -> None:
    text, letters = SCRIPTS[script]
    rows = [{"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": text * 40}]}] * 200
    found = decided(tmp_path, {"a.jsonl": rows}, ["a.jsonl"])["tokens_per_example"]
    assert found >= 0.95 * 40 * len(text) / letters
    assert found <= 40 * len(text), "no more than a token a letter"


def test_answers_of_long_conversations_are_told_as_a_multiple(tmp_path: Path) -> None:
    """Long conversations have more answers: what ends with a mean answer is longer than the mean conversation."""
    (tmp_path / "a.jsonl").write_text(written(chat(1 + 40 * (n > 90)) for n in range(100)))
    recipe = with_key(
        {**BASES["lora-single"], "data": {"train": "a.jsonl"}}, "model.name", "tiiuae/Falcon3-1B-Instruct"
    )
    because = good(tmp_path, recipe).plan.stages[0].decisions["tokens_per_example"].because
    assert because.startswith("3.7") and " times a whole conversation, on average over the answers" in because
    assert "%" not in because


def test_a_stated_mean_stretches_the_sample_and_jumps_nowhere(tmp_path: Path) -> None:
    """A little above the longest sampled row was four times the length that a little below it gave."""
    files = {"rows.jsonl": [chat(1, words) for words in (100, 100, 100, 140)] * 25}
    mean = decided(tmp_path, files, ["rows.jsonl"])["tokens_per_example"]
    stretched = [
        decided(tmp_path, files, ["rows.jsonl"], data__tokens_per_example=round(factor * mean))["max_length"]
        for factor in (0.5, 1.0, 1.2, 1.3, 1.4, 3.0)
    ]
    assert stretched == [512, 512, 1024, 1024, 1024, 2048]


def test_the_share_of_rows_that_a_stated_length_is_too_short_for(tmp_path: Path) -> None:
    files = {"rows.jsonl": [chat(1, words) for words in (10, 10, 10, 1000)] * 25}
    assert decided(tmp_path, files, ["rows.jsonl"], data__max_length=512)["rows_too_long"] == 0.25
    assert "rows_too_long" not in decided(tmp_path, files, ["rows.jsonl"])


def test_a_pair_is_as_long_as_the_longer_of_its_answers(tmp_path: Path) -> None:
    """DPOTrainer pads both to one length."""
    pairs = [{"prompt": "p" * 400, "chosen": "c" * 400 * n, "rejected": "r" * 400 * (4 - n)} for n in (1, 2, 3)] * 20
    (tmp_path / "longer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    recipe: Tables = {**BASES["dpo-full"], "data": {"preferences": "longer.jsonl"}}
    value = {id: made.value for id, made in good(tmp_path, recipe).plan.stages[0].decisions.items()}
    assert 370 <= value["tokens_per_example"] <= 400 and value["max_length"] == 512


def test_what_a_template_writes_first_is_counted(tmp_path: Path) -> None:
    """Llama 3.2's writes dates before every conversation, Qwen 2.5's a system prompt where a row has none."""
    files = {"a.jsonl": [chat(1, 20)] * 200}
    plain, llama, qwen = (
        decided(tmp_path, files, ["a.jsonl"], model__name=name)["tokens_per_example"]
        for name in ("Qwen/Qwen3-0.6B", "meta-llama/Llama-3.2-1B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct")
    )
    assert abs(llama - plain - 25) <= 5 and abs(qwen - plain - 21) <= 5, "sizes are rounded to two digits"


@pytest.mark.parametrize("keys", [{}, {"data__max_length": 256}])
def test_a_row_far_longer_than_the_others_does_not_lengthen_the_mean(tmp_path: Path, keys: dict[str, Any]) -> None:
    """What is over max_length is dropped or cut off; of raw text all of it is learned, in pieces."""
    files = {"rows.jsonl": [chat(1)] * 199 + [chat(1, 60_000)]}
    found = decided(tmp_path, files, ["rows.jsonl"], **keys)
    assert found["tokens_per_example"] < 30 and found["tokens_p99"] < 30
    text = {"rows.jsonl": [{"text": "Why? " * 10}] * 199 + [{"text": "Why? " * 60_000}]}
    raw = decided(tmp_path, text, ["rows.jsonl"], goal__task="continue-pretrain", model__name="Qwen/Qwen2.5-7B")
    assert raw["tokens_per_example"] > 300
