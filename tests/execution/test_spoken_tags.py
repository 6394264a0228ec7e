"""Answers that speak of the tags of thoughts: no template makes thoughts of their words, and no others are refused."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_carried import tokenizer_of
from test_prepare_data import emitted, prepared, write

from recipec.dataset.contents import parted
from recipec.verify.stand_in import template_text

pytestmark = pytest.mark.executes

Row = dict[str, Any]


def pair(n: int, answer: str) -> Row:
    return {"prompt": f"Question {n}?", "chosen": f"Yes {n}.", "rejected": answer}


def completion(n: int, answer: str) -> Row:
    return {"prompt": f"Question {n}?", "completion": answer}


def labeled(n: int, answer: str) -> Row:
    return completion(n, answer) | {"label": n % 2 == 0}


# A way to write rows -> the recipe that learns them, its section of [data] and the folder of its prepared rows.
WAYS = {pair: ("dpo-full", "preferences", "dpo"), labeled: ("kto", "preferences", "kto")}
WAYS |= {completion: ("lora-single", "train", "sft")}
MODELS = {"qwen3": "Qwen/Qwen3-0.6B", "qwen2_5": "Qwen/Qwen2.5-0.5B-Instruct"}
SPOKEN = {
    "a tag": "Write the tag </think> and go on.",
    "words before a thought": "r <think>\n\n</think>\n\nans 12",
    "both tags": "It thinks between <think> and </think>, always.",
    "a tag behind a thought": "<think>Hm.</think>Write </think> and go on.",
    "two thoughts": "<think>a<think>b</think>c",
}
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
each_text = pytest.mark.parametrize("text", SPOKEN.values(), ids=SPOKEN)


def recipe(way: Any, family: str = "qwen3", **data: Any) -> Tables:
    base, section, _ = WAYS[way]
    made = with_key(with_key(BASES[base], "model.name", MODELS[family]), f"data.{section}", "rows.jsonl")
    for key, value in data.items():
        made = with_key(made, f"data.{key}", value)
    return made


def script_of(
    folder: Path, made: Tables, rows: list[Row], monkeypatch: pytest.MonkeyPatch, family: str = "qwen3"
) -> ModuleType:
    write(folder / "rows.jsonl", rows)
    script = emitted(folder, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = template_text(family, "chat")
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    return script


@each_text
@each_way
def test_an_answer_that_the_template_would_cut_is_refused_at_build(tmp_path: Path, way: Any, text: str) -> None:
    write(tmp_path / "rows.jsonl", [*(way(n, f"So {n}.") for n in range(20)), way(20, text)])
    (found,) = (one for one in compiled(tmp_path, recipe(way)).diagnostics if one.code[0] == "E")
    section = WAYS[way][1]
    title = f"the model's chat template would cut 1 of 21 sampled rows of data.{section} at </think>"
    assert (found.code, found.title) == ("E0309", title)
    assert found.labels[0].message == f"rows.jsonl:21 says {text!r:.60}"
    assert any("strip" in help for help in found.help) is ("<think>" not in text)


@pytest.mark.parametrize("reasoning", ["", "keep"])
@each_text
@each_way
def test_an_answer_that_the_template_would_cut_is_refused_in_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Any, text: str, reasoning: str
) -> None:
    told = {"reasoning": reasoning} if reasoning else {}
    rows = [way(n, f"<think>Hm.</think>So {n}." if told else f"So {n}.") for n in range(20)]
    script = script_of(tmp_path, recipe(way, **told), rows, monkeypatch)
    write(tmp_path / "rows.jsonl", [*rows, way(20, text)])  # behind what the build has seen
    with pytest.raises(SystemExit, match=r"^rows\.jsonl, line 21: the chat template leaves out "):
        script.main()


@each_text
@each_way
def test_a_template_that_cuts_nothing_takes_such_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Any, text: str
) -> None:
    rows = [way(n, f"{text} {n}") for n in range(20)]
    script_of(tmp_path, recipe(way, "qwen2_5"), rows, monkeypatch, "qwen2_5").main()
    folder = WAYS[way][2]
    assert sum(len(prepared(tmp_path, f"{folder}/{part}")) for part in ("train", "eval", "test")) == 20


@pytest.mark.parametrize("text", [*SPOKEN.values(), "So.", "", "</think>", " <think></think>", "\n<think>a</think> b"])
def test_compiler_and_preparation_part_an_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    script = script_of(tmp_path, recipe(pair), [pair(n, f"So {n}.") for n in range(20)], monkeypatch)
    assert script.parted(text) == parted(text)


def test_a_thought_counts_beside_the_same_words_in_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template that drops thoughts is found, too, where the question has the words of the thought."""
    rows = [{"prompt": f"Sum {n}?", "completion": f"<think>Sum {n}?</think>So {n}."} for n in range(20)]
    script = script_of(tmp_path, recipe(completion), rows, monkeypatch, "deepseekv3")
    with pytest.raises(SystemExit, match=r"the chat template leaves out 'Sum 0\?'"):
        script.main()
