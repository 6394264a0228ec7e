"""Sources of one mix that are written in different ways: each row is learned as in a set of its own format."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from datasets import IterableDataset
from emitted_modules import load
from test_carried import END, asked, learned, recipe, said
from test_prepare_data import prepared, write

pytestmark = pytest.mark.executes

SHARED = {"path": "share.jsonl", "columns": {"messages": "dialog"}}


def chats(count: int = 20, **fields: Any) -> list[dict[str, Any]]:
    more = {"role": "user", "content": "?"}
    return [asked(f"Chat {n}", said(f"A {n}", **fields), more, said("B")) for n in range(count)]


def shared(count: int = 20) -> list[dict[str, Any]]:
    turns = [("human", "Shared {}"), ("gpt", "C {}")]
    return [{"dialog": [{"from": who, "value": text.format(n)} for who, text in turns]} for n in range(count)]


def tasks(count: int = 20) -> list[dict[str, Any]]:
    return [{"instruction": f"Task {n}", "input": "", "output": f"D {n}"} for n in range(count)]


def prompts(count: int = 20) -> list[dict[str, Any]]:
    before = [{"role": "user", "content": "Hello"}, said("not learned")]
    return [
        {"prompt": [*before, {"role": "user", "content": f"Prompt {n}"}], "completion": [said(f"E {n}")]}
        for n in range(count)
    ]


def weighed(n: int) -> dict[str, Any]:
    return asked(f"Weighed {n}", said("no", weight=0), {"role": "user", "content": "Again"}, said(f"F {n}"))


def answer(text: str) -> str:
    return f"<think>\n\n</think>\n\n{text}{END}"


def mixed(folder: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Any], **data: Any) -> list[list[str]]:
    """What is learned of each prepared row; the files stand in `folder` already, and chat.jsonl is written here."""
    made = recipe(**data)
    return learned(folder, with_key(made, "data.train", sources), chats(), monkeypatch)


def test_conversations_and_single_answers_are_learned_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "share.jsonl", shared())
    (tmp_path / "alpaca.json").write_text(json.dumps(tasks()))
    found = mixed(tmp_path, monkeypatch, ["chat.jsonl", SHARED, "alpaca.json"])
    assert found == sorted(
        [[answer(f"A {n}"), answer("B")] for n in range(20)]
        + [[answer(f"{letter} {n}")] for letter in "CD" for n in range(20)]
    )


def test_answers_in_prompts_are_shown_and_not_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No mask of a conversation could say so: every answer is a row of its own."""
    write(tmp_path / "prompts.jsonl", prompts())
    (tmp_path / "alpaca.json").write_text(json.dumps(tasks()))
    found = mixed(tmp_path, monkeypatch, ["chat.jsonl", "prompts.jsonl", "alpaca.json"])
    single = [answer("B")] * 20 + [answer(f"{letter} {n}") for letter in "ADE" for n in range(20)]
    assert found == sorted([text] for text in single)


def test_a_weight_in_one_source_leaves_those_without_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "weighed.jsonl", [weighed(n) for n in range(20)])
    write(tmp_path / "share.jsonl", shared())
    found = mixed(tmp_path, monkeypatch, ["chat.jsonl", "weighed.jsonl", SHARED])
    single = [answer("B")] * 20 + [answer(f"{letter} {n}") for letter in "ACF" for n in range(20)]
    assert found == sorted([text] for text in single)


def test_files_of_evaluation_are_read_as_what_they_are_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alpaca.json").write_text(json.dumps(tasks()))
    write(tmp_path / "eval.jsonl", [{**row, "instruction": f"Other {row['instruction']}"} for row in tasks(4)])
    found = mixed(tmp_path, monkeypatch, ["chat.jsonl", "alpaca.json"], eval="eval.jsonl", test_fraction=0.1)
    assert found.count([answer("D 1")]) == 2, "one is learned, one is for evaluation"


def test_a_column_of_another_source_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`output` is read in the one source; behind the sample of the other it would be lost."""
    (tmp_path / "alpaca.json").write_text(json.dumps(tasks()))
    rows = [*chats(220), asked("Late", said("G"), output="lost")]
    made = with_key(recipe(), "data.train", ["chat.jsonl", "alpaca.json"])
    with pytest.raises(SystemExit, match=r"chat.jsonl, line 221:.*nothing reads output"):
        learned(tmp_path, made, rows, monkeypatch)


def test_a_message_in_two_ways_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "share.jsonl", shared())
    rows = [*chats(220), {"messages": [{"role": "user", "content": "Late", "value": "lost"}, said("G")]}]
    made = with_key(recipe(), "data.train", ["chat.jsonl", SHARED])
    with pytest.raises(SystemExit, match=r"chat.jsonl, line 221:.*nothing reads value of this message"):
        learned(tmp_path, made, rows, monkeypatch)


def test_the_first_rows_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file, and of a data set of the Hub, which is streamed."""
    (tmp_path / "alpaca.json").write_text(json.dumps(tasks()))
    sources = [{"path": "chat.jsonl", "take": 12}, {"hub": "org/rows", "take": 7, "format": "instruction"}]
    asked: list[dict[str, Any]] = []

    def streamed(*_: Any, **given: Any) -> IterableDataset:
        asked.append(given)
        return IterableDataset.from_generator(lambda: iter(tasks()))

    monkeypatch.setattr("datasets.load_dataset", streamed)
    monkeypatch.setattr("datasets.load_dataset_builder", lambda *_, **__: SimpleNamespace(hash="of now"))
    found = mixed(tmp_path, monkeypatch, sources)
    assert found == sorted(
        [[answer(f"A {n}"), answer("B")] for n in range(12)] + [[answer(f"D {n}")] for n in range(7)]
    )
    assert (
        asked == [{"split": "train", "revision": None, "streaming": True}] * 3
    )  # columns of its first rows, of all taken, then rows


def test_a_glob_is_taken_from_as_one_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not so many rows of each file."""
    for name in ("d1", "d2"):
        write(tmp_path / f"{name}.jsonl", chats(10))
    write(tmp_path / "d2.jsonl", [asked(f"Second {n}", said(f"H {n}")) for n in range(10)])
    found = mixed(tmp_path, monkeypatch, [{"path": "d*.jsonl", "take": 14}])
    assert len(found) == 14


def test_another_name_of_an_optional_column_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input is `context` in the one file and `input` in the other."""
    for name in ("context", "input"):
        rows = [{"instruction": f"Task {n}", name: f"{name} {n}", "output": f"{name} {n}"} for n in range(20)]
        write(tmp_path / f"{name}.jsonl", rows)
    mixed(tmp_path, monkeypatch, ["context.jsonl", "input.jsonl"])
    rows = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    asked_of = sorted(row["prompt"][0]["content"].partition("\n\n")[2] for row in rows)
    assert asked_of == sorted(f"{name} {n}" for name in ("context", "input") for n in range(20))


def listed(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


STRINGS = [{"prompt": f"Ask {n}", "completion": f"E {n}"} for n in range(4)]
LISTS = [{"prompt": [{"role": "user", "content": f"Ask {n}"}], "completion": [said(f"E {n}")]} for n in range(4)]
IN_PARTS = [asked("", said(f"E {n}")) | {"messages": [{"role": "user", "content": listed(f"Ask {n}")}, said(f"E {n}")]}
            for n in range(4)]  # fmt: skip
FROM_VALUE = [{"conversations": [{"from": "human", "value": f"Ask {n}"}, {"from": "gpt", "value": f"E {n}"}]}
              for n in range(4)]  # fmt: skip
TRAINED = {
    "texts": [{"prompt": f"Prompt {n}", "completion": f"A {n}"} for n in range(20)],
    "lists": prompts(),
    "conversations": chats(),
}


@pytest.mark.parametrize("part", ["eval", "test"])
@pytest.mark.parametrize(
    ("trained", "held"),
    [
        ("texts", LISTS),
        ("lists", STRINGS),
        ("texts", [{"question": row["prompt"], "answer": row["completion"]} for row in STRINGS]),
        ("conversations", IN_PARTS),
        ("conversations", FROM_VALUE),
        ("conversations", STRINGS),
        ("texts", FROM_VALUE),
        ("lists", [{"instruction": row["prompt"], "output": row["completion"]} for row in STRINGS]),
    ],
    ids=["lists", "texts", "other names", "texts in parts", "ShareGPT", "answers", "conversations", "instructions"],
)
def test_a_held_out_file_is_read_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: str, held: list[dict[str, Any]], part: str
) -> None:
    write(tmp_path / "held.jsonl", held)
    found = learned(tmp_path, recipe(**{part: "held.jsonl"}), TRAINED[trained], monkeypatch)
    assert [answers for answers in found if answers[0].startswith("<think>\n\n</think>\n\nE ")][-4:]
    rows = prepared(tmp_path, f"sft/{part}")
    questions = [(row.get("messages") or row["prompt"])[0]["content"] for row in rows]
    assert questions == [f"Ask {n}" for n in range(4)]


def test_what_a_held_out_file_alone_carries_is_named(tmp_path: Path) -> None:
    """Results of tools have no field of their own that could be named; a weight of 7 is no row."""
    write(tmp_path / "chat.jsonl", chats())
    result = {"role": "tool", "content": "42"}
    write(tmp_path / "held.jsonl", [asked(f"Ask {n}", said("So."), result, said("Yes.")) for n in range(4)])
    (error,) = [found for found in compiled(tmp_path, recipe(eval="held.jsonl")).diagnostics if found.code[0] == "E"]
    assert error.title == "only the rows of data.eval carry tools"
    assert 'carry = ["tools"]' in error.help[0]
    write(tmp_path / "chat.jsonl", chats(weight=1))
    write(tmp_path / "held.jsonl", [asked("Ask", said("So.", weight=7))])
    (error,) = [found for found in compiled(tmp_path, recipe(eval="held.jsonl")).diagnostics if found.code[0] == "E"]
    assert error.title == "`held.jsonl:1` cannot be used"


def test_rows_of_tokens_hold_no_thoughts_to_strip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a stage of messages, whose thoughts are taken out, lists of numbers are no messages."""
    tokens = {"input_ids": [*range(5, 25)], "labels": [-100] * 5 + [*range(10, 25)]}
    thought = [{"role": "assistant", "content": f"<think>Hm.</think>{said}"} for said in ("Yes.", "No.")]
    pairs = [
        {"prompt": [{"role": "user", "content": f"{n}?"}], "chosen": thought[:1], "rejected": thought[1:]}
        for n in range(60)
    ]
    for name, rows in (
        ("tok.jsonl", [tokens | {"input_ids": [n, *range(6, 25)]} for n in range(60)]),
        ("p.jsonl", pairs),
    ):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"train": "tok.jsonl", "preferences": "p.jsonl", "reasoning": "strip"}
    recipe = with_key(with_key(BASES["sft-dpo"], "data", data), "model.name", "Qwen/Qwen3-4B")
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path, recipe))["prepare_data.py"])
    script = load(tmp_path / "prepare_data.py", monkeypatch)
    raw = {"row": json.dumps(tokens).encode(), "place": "tok.jsonl, line 1"}
    assert script.converted_row(raw, next(stage for stage in script.STAGES if stage.name == "sft")) == tokens
