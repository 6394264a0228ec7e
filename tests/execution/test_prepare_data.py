"""The emitted prepare_data.py, run on small data with a tokenizer that counts words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from compiling import BASES, Tables, good, texts, with_key
from emitted_modules import load

from recipec.dataset import BadContent, RowReading, converted, recognise
from recipec.rules.evaluation import training_rows

INSTRUCTION = {"instruction": "Add.", "output": "3"}

pytestmark = pytest.mark.executes


class Words:
    """A tokenizer whose tokens are words."""

    chat_template, eos_token = "plain", "."
    added_tokens_decoder: ClassVar[dict[int, Any]] = {}

    def get_vocab(self) -> dict[str, int]:
        return {"word": 0}

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        return " ".join(message["content"] for message in messages)

    def __call__(self, texts: list[str], **_: Any) -> dict[str, list[list[str]]]:
        return {"input_ids": [text.split() for text in texts]}


class OtherWords(Words):
    chat_template = "other"


def emitted(folder: Path, recipe: Tables, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """prepare_data.py of a recipe whose data are in `folder`, which is its bundle, too."""
    script = texts(good(folder, recipe))["prepare_data.py"]
    (folder / "prepare_data.py").write_text(script)
    module = load(folder / "prepare_data.py", monkeypatch)
    monkeypatch.setattr(module, "load_tokenizer", lambda *_: Words())
    monkeypatch.setattr(module, "prove_mask", lambda *_: None, raising=False)
    root = ["--data-root", str(folder)] if "--data-root" in script else []  # not where all rows are on the Hub
    monkeypatch.setattr(sys, "argv", ["prepare_data.py", *root])
    return module


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def prepared(folder: Path, part: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "data" / f"{part}.jsonl").read_text().splitlines()]


def chats(count: int) -> list[dict[str, Any]]:
    said = [("user", "Why {}?"), ("assistant", "Because of {}.")]
    return [{"messages": [{"role": r, "content": text.format(n)} for r, text in said]} for n in range(count)]


def number(row: dict[str, Any]) -> int:
    """The last number that a row's question has."""
    asked = (row.get("messages") or row["prompt"])[0]["content"]
    return int(re.findall(r"\d+", asked)[-1])


def answered(prompt: str, completion: str, label: object) -> dict[str, Any]:
    return {"prompt": prompt, "completion": completion, "label": label}


def pairs(count: int) -> list[dict[str, Any]]:
    return [{"prompt": f"Why {n}?", "chosen": f"Because of {n}.", "rejected": "No idea."} for n in range(count)]


@pytest.mark.parametrize(
    ("key", "value", "texts_left", "answers_left"),
    [("data.max_length", 10, 2, 1), ("train.packing", False, 4, 1), ("data.overflow", "truncate", 2, 2)],
)
def test_raw_text_before_answers_loses_nothing_to_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: object, texts_left: int, answers_left: int
) -> None:
    from datasets import Dataset

    recipe = with_key(with_key(BASES["text-sft"], "data.max_length", 10), key, value)
    script = emitted(tmp_path, recipe, monkeypatch)
    twice = {"text": ["a"] * 4, "length": [5] * 4}
    monkeypatch.setattr(script, "pieces", lambda *_: twice, raising=False)
    asked = [row["messages"] for row in chats(2)]
    columns = {"continue-pretrain": {"text": ["a", "b"]}, "sft": {"messages": asked}}
    left = {}
    for stage in script.STAGES:
        rows, report = Dataset.from_dict(columns[stage.name] | {"length": [99, 5]}), {}
        tokenizer = (Words(),) if "tokenizer" in signature(script.fit).parameters else ()
        left[stage.name] = len(script.fit(rows, stage, *tokenizer, report))
        assert report["dropped_share"] == max(0, 1 - left[stage.name] / 2)
    assert left == {"continue-pretrain": texts_left, "sft": answers_left}


@pytest.mark.parametrize("base", ["dpo-full", "reward"])
def test_pairs_of_the_same_answer_twice_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], base: str
) -> None:
    """Space around an answer prefers nothing either; rows that are left out are told in a sentence."""
    equal = [{"prompt": f"And {n}?", "chosen": "No idea.", "rejected": "No idea." + " \n" * (n % 2)} for n in range(7)]
    script = emitted(tmp_path, BASES[base], monkeypatch)
    torn = [{"prompt": "Who?", "chosen": one, "rejected": other} for one, other in (("Me.", "You."), ("You.", "Me."))]
    write(tmp_path / "pairs.jsonl", [*pairs(40), *equal, *torn, *pairs(3)])
    script.main()
    stage = "reward" if base == "reward" else "dpo"
    lost = "exact duplicates (3), pairs with equal answers (7), rows that contradict others (2)"
    said = f"{stage}: left out of 52 rows: {lost}. Rows that remain: train 32, test 4, eval 4.\n"
    assert capsys.readouterr().out.endswith(said)
    counted = json.loads((tmp_path / "data" / stage / "report.json").read_text())["train"]
    assert (counted["read"], counted["equal"], counted["empty"]) == (52, 7, 0)
    kept = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"{stage}/{part}")]
    assert len(kept) == 40
    assert all(row["chosen"] != row["rejected"] for row in kept)


@pytest.mark.parametrize("base", ["dpo-full", "reward"])
def test_pairs_that_are_also_there_exchanged_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    rows = pairs(40)
    exchanged = [row | {"chosen": row["rejected"], "rejected": row["chosen"]} for row in rows[:6]]
    script = emitted(tmp_path, BASES[base], monkeypatch)
    write(tmp_path / "pairs.jsonl", [*rows, *exchanged])
    script.main()
    stage = "reward" if base == "reward" else "dpo"
    assert json.loads((tmp_path / "data" / stage / "report.json").read_text())["train"]["contradictory"] == 12
    kept = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"{stage}/{part}")]
    assert {number(row) for row in kept} == {*range(6, 40)}


@pytest.mark.parametrize(
    ("base", "keys", "has", "lacks"),
    [
        (
            "lora-single",
            {},
            ["    test_fraction: float\n", "        prove_mask(rows, tok"],
            ["if stage.", ": str = ", '"messages" in'],
        ),
        (
            "kto",
            {},
            ["count_labels(rows, stage", "rows.shuffle(seed=SEED)  #"],
            ["shuffled:", "stage.shuffled", '"label" in', "if stage."],
        ),
        (
            "lora-single",
            {"data.eval": "held.jsonl"},
            ["    eval: list[dict]\n", ', "train")'],
            ["eval_fraction", "if stage."],
        ),
        (
            "sft-dpo",
            {},
            ["    eval_fraction: float\n", '    if "chosen" not in row:\n        return False\n'],
            ["if stage.", "told :="],
        ),
        ("sft-kto", {}, ["shuffled: bool = False\n", 'if "label" in', 'if "messages" in'], ["if stage.eval"]),
    ],
)
def test_the_script_asks_only_what_can_differ(
    tmp_path: Path, base: str, keys: dict[str, Any], has: list[str], lacks: list[str]
) -> None:
    write(tmp_path / "held.jsonl", chats(20))
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    text = texts(good(tmp_path, recipe))["prepare_data.py"]
    assert [part for part in has if part not in text] == []
    assert [part for part in lacks if part in text] == []


@pytest.mark.parametrize("sft", ["chat.jsonl", "instructions.jsonl"])
def test_no_stage_learns_what_a_later_one_is_judged_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sft: str
) -> None:
    write(tmp_path / "chat.jsonl", chats(120))
    instructions = [{"instruction": f"Why {n}?", "input": "", "output": f"For {n}."} for n in range(120)]
    write(tmp_path / "instructions.jsonl", instructions)
    write(tmp_path / "pairs.jsonl", pairs(100))
    emitted(tmp_path, with_key(BASES["sft-dpo"], "data.train", sft), monkeypatch).main()

    column = "messages" if sft == "chat.jsonl" else "prompt"
    held_out = {row["prompt"][0]["content"] for part in ("eval", "test") for row in prepared(tmp_path, f"dpo/{part}")}
    learned = {row[column][0]["content"] for row in prepared(tmp_path, "sft/train")}
    assert len(held_out) == 20
    assert learned
    assert not held_out & learned
    assert len(prepared(tmp_path, "dpo/train")) == 80  # what an earlier stage was judged by may be learned now


def test_unchanged_data_are_not_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    write(tmp_path / "chat.jsonl", chats(50))
    module = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    module.main()
    monkeypatch.setattr(module, "prepare", lambda *_: pytest.fail("prepared again"))
    capsys.readouterr()
    module.main()
    assert capsys.readouterr().out.endswith("is up to date: nothing to prepare\n")


@pytest.mark.parametrize("changed", ["chat.jsonl", "prepare_data.py", "data/sft/train.jsonl"])
def test_changed_data_are_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    write(tmp_path / "chat.jsonl", chats(50))
    module = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    module.main()
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    assert not module.up_to_date(module.inputs_digest(tmp_path, Words()))


def test_missing_rows_and_another_tokenizer_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(50))
    module = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    module.main()
    inputs = module.inputs_digest(tmp_path, Words())
    assert module.up_to_date(inputs)
    assert module.inputs_digest(tmp_path, OtherWords()) != inputs
    (tmp_path / "data/sft/test.jsonl").unlink()
    assert not module.up_to_date(inputs)


def test_the_newest_rows_are_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows stand in no order of time in their file."""
    dated = [row | {"date": 2000 + (7 * n) % 100} for n, row in enumerate(chats(100))]
    write(tmp_path / "chat.jsonl", dated)
    emitted(tmp_path, with_key(BASES["lora-single"], "data.split", {"time": "date"}), monkeypatch).main()

    dates = {
        part: sorted(2000 + (7 * number(row)) % 100 for row in prepared(tmp_path, f"sft/{part}"))
        for part in ("train", "eval", "test")
    }
    assert [len(found) for found in dates.values()] == [80, 10, 10]
    assert dates["train"][-1] < dates["eval"][0] <= dates["eval"][-1] < dates["test"][0]


def test_every_answer_of_a_conversation_keeps_what_it_is_split_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Falcon 3's template cannot be marked, so that each answer becomes a row."""
    turns = ("user", "assistant", "user", "assistant")
    said = [
        [{"role": role, "content": f"{role} {place} of {n}"} for place, role in enumerate(turns)] for n in range(60)
    ]
    write(tmp_path / "chat.jsonl", [{"messages": messages, "user": n} for n, messages in enumerate(said)])
    recipe = with_key(BASES["full-fsdp"], "model.name", "tiiuae/Falcon3-7B-Instruct")
    recipe = with_key(recipe, "data.examples", 60)
    emitted(tmp_path, with_key(recipe, "data.split", {"group": "user"}), monkeypatch).main()

    users = {part: [number(row) for row in prepared(tmp_path, f"sft/{part}")] for part in ("train", "eval", "test")}
    assert sum(map(len, users.values())) == 120
    assert not set(users["train"]) & {*users["eval"], *users["test"]}
    report = json.loads((tmp_path / "data/sft/report.json").read_text())["train"]
    assert (report["answers"], report["empty"]) == (2 * report["read"], 0) == (120, 0)
    assert len({*users["eval"]}) == len({*users["test"]}) == 6


def test_all_answers_to_a_prompt_are_on_one_side_and_are_shuffled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is sorted by its labels, with four answers to every prompt."""
    module = emitted(tmp_path, BASES["kto"], monkeypatch)
    rows = [answered(f"Why {n}?", f"Answer {k} to {n}.", k < 2) for k in range(4) for n in range(50)]
    write(tmp_path / "answers.jsonl", rows)
    module.main()

    found = {part: prepared(tmp_path, f"kto/{part}") for part in ("train", "eval", "test")}
    asked = {part: {row["prompt"][0]["content"] for row in rows} for part, rows in found.items()}
    assert {part: len(prompts) for part, prompts in asked.items()} == {"train": 40, "eval": 5, "test": 5}
    assert sum(map(len, found.values())) == 200
    assert len(set.union(*asked.values())) == 50
    labels = [row["label"] for row in found["train"]]
    assert sum(labels) == 80
    assert 20 < sum(labels[:80]) < 60, "the order of the file would have 80 of one label first"
    alone = [one["prompt"] != other["prompt"] for one, other in zip(found["train"], found["train"][1:], strict=False)]
    assert sum(alone) > 140, "answers to one prompt do not stand together"
    report = json.loads((tmp_path / "data/kto/report.json").read_text())["train"]
    assert (report["labeled_true"], report["labeled_false"], report["leaks"]) == (80, 80, 0)


@pytest.mark.parametrize("base", ["lora-single", "lora-ddp"])
def test_rows_of_one_prompt_are_on_one_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """Chats, and instructions that become prompts and completions: no row is lost as a leak of another."""
    module = emitted(tmp_path, BASES[base], monkeypatch)
    asked = [(f"Why {n}?", f"Answer {k} to {n}.") for k in range(4) for n in range(50)]
    write(tmp_path / "chat.jsonl", [{"messages": turns(("user", q), ("assistant", a))} for q, a in asked])
    write(tmp_path / "instructions.jsonl", [{"instruction": q, "input": "", "output": a} for q, a in asked])
    module.main()

    found = {part: prepared(tmp_path, f"sft/{part}") for part in ("train", "eval", "test")}
    prompts = {part: {module.question(row) for row in rows} for part, rows in found.items()}
    assert {part: len(each) for part, each in prompts.items()} == {"train": 40, "eval": 5, "test": 5}
    assert len(set.union(*prompts.values())) == 50
    assert {part: len(rows) for part, rows in found.items()} == {"train": 160, "eval": 20, "test": 20}
    report = json.loads((tmp_path / "data/sft/report.json").read_text())["train"]
    assert report["leaks"] == 0
    numbers = [int(re.search(r"to (\d+)", str(row))[1]) for row in found["test"]]
    assert numbers != sorted(numbers), "evaluation reads the first rows, and the file may be sorted"


def test_a_blank_input_of_an_instruction_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the recipe is compiled; an input that is no text is refused by both."""
    script = emitted(tmp_path, BASES["lora-ddp"], monkeypatch)
    shape = recognise((INSTRUCTION | {"input": "1"},), ("instruction",), {}, ["f:1"])
    for given in (None, "", " \n", "\u200b", "1 and 2"):
        row = INSTRUCTION | {"input": given}
        asked = "Add.\n\n1 and 2" if given == "1 and 2" else "Add."
        made = script.from_instruction(row)
        assert next(iter(made.values()))[0]["content"] == asked
        assert converted(row, shape, RowReading())["prompt"][0]["content"] == asked
    with pytest.raises(ValueError, match="`input` holds 0, which is no text"):
        script.from_instruction(INSTRUCTION | {"input": 0})
    with pytest.raises(BadContent, match="`input` holds 0, which is no text"):
        converted(INSTRUCTION | {"input": 0}, shape, RowReading())


def test_an_answer_with_both_labels_and_an_empty_one_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = emitted(tmp_path, BASES["kto"], monkeypatch)
    fine = [answered(f"Why {n}?", f"For {n}.", n % 2 == 0) for n in range(40)]
    torn = [answered("Who?", "Me.", True), answered("Who?", "Me.", False), answered("Who?", "You.", False)]
    write(tmp_path / "answers.jsonl", [*fine, *torn, fine[0], answered("What?", " ", True)])
    module.main()

    report = json.loads((tmp_path / "data/kto/report.json").read_text())["train"]
    assert (report["read"], report["empty"], report["duplicates"], report["contradictory"]) == (45, 1, 1, 2)
    parts = ("train", "eval", "test")
    kept = [row["completion"][0]["content"] for part in parts for row in prepared(tmp_path, f"kto/{part}")]
    assert len(kept) == 41
    assert "You." in kept and "Me." not in kept


@pytest.mark.parametrize(
    ("desirable", "said"),  # of 160 rows; the weights are 1, from a sample with as many of either
    [
        (100, "train.py, are as 1.67 to 1"),
        (100, "alignment.undesirable_weight = 1.4\n"),
        (40, "alignment.desirable_weight = 3.5\n"),
        (85, None),
    ],
)
def test_weights_that_do_not_balance_all_rows_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, desirable: int, said: str | None
) -> None:
    module = emitted(tmp_path, BASES["kto"], monkeypatch)
    module.check_balance(module.STAGES[0], desirable, 160 - desirable)
    text = capsys.readouterr().out
    assert said in text if said else not text


def test_the_weights_are_held_against_the_rows_to_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    module = emitted(tmp_path, BASES["kto"], monkeypatch)
    write(tmp_path / "answers.jsonl", [answered(f"Why {n}?", f"For {n}.", n % 5 == 0) for n in range(200)])
    module.main()
    report = json.loads((tmp_path / "data/kto/report.json").read_text())["train"]
    counted = f"{report['labeled_true']} desirable and {report['labeled_false']} undesirable"
    assert f"CHECK THE WEIGHTS of kto: {counted}" in capsys.readouterr().out


def test_one_label_alone_is_refused_with_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = emitted(tmp_path, BASES["kto"], monkeypatch)
    write(tmp_path / "answers.jsonl", [answered(f"Why {n}?", "So.", True) for n in range(40)])
    with pytest.raises(SystemExit, match=r"kto: all 32 rows to train on are labeled true\. Both"):
        module.main()


def test_labels_in_csv_are_true_and_false(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Why {n}?,For {n}.,{n % 2}" for n in range(40)]
    (tmp_path / "own.csv").write_text("\n".join(["prompt,completion,label", *lines]))
    emitted(tmp_path, with_key(BASES["kto"], "data.preferences", "own.csv"), monkeypatch).main()
    rows = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"kto/{part}")]
    assert {(row["completion"][0]["content"], row["label"] is True) for row in rows} == {
        (f"For {n}.", n % 2 == 1) for n in range(40)
    }


def test_a_pair_becomes_two_answers_on_one_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(60))
    write(tmp_path / "pairs.jsonl", pairs(100))
    emitted(tmp_path, BASES["sft-kto"], monkeypatch).main()

    found = {part: prepared(tmp_path, f"kto/{part}") for part in ("train", "eval", "test")}
    # a twentieth each: the recipe states 5,000 pairs, of whose 10,000 answers 500 are enough
    assert {part: len(rows) for part, rows in found.items()} == {"train": 180, "eval": 10, "test": 10}
    for rows in found.values():
        by_label = {label: [row["prompt"] for row in rows if row["label"] is label] for label in (True, False)}
        assert sorted(map(str, by_label[True])) == sorted(map(str, by_label[False]))
    said = {row["completion"][0]["content"] for rows in found.values() for row in rows if not row["label"]}
    assert said == {"No idea."}
    report = json.loads((tmp_path / "data/kto/report.json").read_text())["train"]
    assert (report["read"], report["answers"]) == (100, 200)
    assert len(prepared(tmp_path, "sft/eval")) == 6, "the other stage is split as it was"


def turns(*said: tuple[str, object]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in said]


SHARED = [
    {
        "chosen": turns(("user", f"Why {n}?"), ("assistant", "So.")),
        "rejected": turns(("user", f"Why {n}?"), ("assistant", "No.")),
    }
    for n in range(300)
]
ANSWERS = [answered(f"Why {n}?", f"For {n}.", n % 2 == 0) for n in range(300)]
LISTED = turns(("user", [{"type": "text", "text": "Why?"}]), ("assistant", "So."))


@pytest.mark.parametrize(
    ("base", "rows", "bad", "said"),
    [
        ("kto", ANSWERS, answered("Why?", "So.", None), "a label is neither true nor false: None"),
        ("kto", ANSWERS, answered("Why?", "So.", 2), "a label is neither true nor false: 2"),
        ("kto", ANSWERS, answered(None, "So.", True), "`prompt` holds no value .`incomplete"),
        (
            "dpo-full",
            pairs(300),
            {"prompt": "Why?", "chosen": None, "rejected": "No."},
            "`chosen` holds no value .`incomplete",
        ),
        (
            "dpo-full",
            SHARED,
            {"chosen": SHARED[0]["chosen"], "rejected": SHARED[1]["rejected"]},
            "`chosen` and `rejected` are not the same prompt",
        ),
        ("lora-single", chats(300), {"messages": None}, "`messages` holds no value .`incomplete"),
        ("lora-single", chats(300), {"messages": LISTED}, "this message has no text"),
        (
            "lora-single",
            chats(300),
            {"messages": turns(("assistant", None))},
            "this message has no text",
        ),
        (
            "lora-single",
            chats(300),
            {"messages": [{"role": "assistant", "content": "So.", "tool_calls": [{"id": "a"}]}]},
            "nothing reads tool_calls of this message",
        ),
        (
            "lora-single",
            chats(300),
            {"messages": turns(("tool", "42"))},
            "this message is not from system, user or assistant",
        ),
    ],
)
def test_a_bad_row_behind_the_sample_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, rows: list[dict], bad: dict, said: str
) -> None:
    write(tmp_path / "own.jsonl", [*rows, bad])
    section = "train" if base == "lora-single" else "preferences"
    module = emitted(tmp_path, with_key(BASES[base], f"data.{section}", "own.jsonl"), monkeypatch)
    with pytest.raises(SystemExit, match=f"^own.jsonl, line 301: {said}.*Correct the row, or remove it$"):
        module.main()


def test_all_refused_rows_of_a_file_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason with its first row and the number of the others; what a row holds is cut."""
    odd = [{"messages": turns(("tool", f"{n} " * 500))} for n in range(3)]
    write(tmp_path / "own.jsonl", [*chats(300), *odd, {"messages": None}, odd[0], {"messages": 5}])
    module = emitted(tmp_path, with_key(BASES["lora-single"], "data.train", "own.jsonl"), monkeypatch)
    with pytest.raises(SystemExit) as stopped:
        module.main()
    first, second, *others = str(stopped.value).splitlines()
    assert first.startswith("own.jsonl, line 301: this message is not from system, user or assistant")
    assert first.endswith("(3 more rows like it)")
    assert second.startswith("own.jsonl, line 304: `messages` holds no value (`incomplete")
    assert len(others) == 1 and "line 306" in others[0]
    assert all(len(line) < 300 for line in (first, second))


_AS_SCRIPT = """
import runpy, sys
import transformers
from test_prepare_data import Words
transformers.AutoTokenizer.from_pretrained = lambda *_, **__: Words()
sys.argv = ["prepare_data.py", "--data-root", "."]
runpy.run_path("prepare_data.py", run_name="__main__")
"""


def test_a_bad_row_in_one_of_several_processes_is_one_line(tmp_path: Path) -> None:
    """A class of the script that runs is another one in each process, which the script could not catch."""
    write(tmp_path / "own.jsonl", [*pairs(10_000), {"prompt": "Why?", "chosen": None, "rejected": "No."}])
    recipe = with_key(BASES["dpo-full"], "data.preferences", "own.jsonl")
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path, recipe))["prepare_data.py"])
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"PYTHONPATH": paths, "HF_HOME": str(tmp_path / "hub")}
    done = subprocess.run(
        [sys.executable, "-c", _AS_SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert (
        done.stderr.strip().splitlines()[-1].startswith("own.jsonl, line 10001: `chosen` holds no value (`incomplete")
    )


@pytest.mark.parametrize("speaker", ["chatgpt", "bing", "bard", "model"])
def test_the_names_of_assistants_in_dumps_of_sharegpt_are_read(tmp_path: Path, speaker: str) -> None:
    row = {"conversations": [{"from": "human", "value": "Why?"}, {"from": speaker, "value": "So."}]}
    write(tmp_path / "own.jsonl", [row | {"n": n} for n in range(40)])
    made = with_key(with_key(BASES["lora-single"], "data.train", "own.jsonl"), "data.ignore", ["n"])
    assert f'"{speaker}": "assistant"' in texts(good(tmp_path, made))["prepare_data.py"]


def test_an_unknown_speaker_behind_the_sample_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"conversations": [{"from": "human", "value": f"{n}?"}, {"from": "gpt", "value": "So."}]} for n in range(300)
    ]
    write(tmp_path / "own.jsonl", [*rows, {"conversations": [{"from": "bot", "value": "So."}]}])
    with pytest.raises(SystemExit, match=r"^own.jsonl, line 301: this message is not from system, human"):
        emitted(tmp_path, with_key(BASES["lora-single"], "data.train", "own.jsonl"), monkeypatch).main()


def test_an_answer_that_repeats_the_prompt_is_learned_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"prompt": turns(("user", f"Why {n}?"))} | row for n, row in enumerate(SHARED)]
    write(tmp_path / "own.jsonl", rows)
    module = emitted(tmp_path, with_key(BASES["dpo-full"], "data.preferences", "own.jsonl"), monkeypatch)
    module.main()
    for row in prepared(tmp_path, "dpo/train"):
        assert [len(row["prompt"]), *(row[column] for column in ("chosen", "rejected"))] == [
            1, turns(("assistant", "So.")), turns(("assistant", "No.")),
        ]  # fmt: skip
    write(tmp_path / "own.jsonl", [*rows, {**rows[0], "prompt": turns(("user", "Who?"))}])
    with pytest.raises(SystemExit, match=r"^own.jsonl, line 301: `chosen` neither begins with the assistant's answer"):
        module.main()


def test_a_source_is_drawn_by_its_weight_after_duplicates_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.jsonl", [*chats(100), *chats(100)])
    write(tmp_path / "b.jsonl", chats(200)[100:])
    recipe = with_key(BASES["lora-single"], "data.train", [{"path": "a.jsonl", "weight": 2.5}, "b.jsonl"])
    emitted(tmp_path, recipe, monkeypatch).main()
    asked = {
        p: [r["messages"][0]["content"] for r in prepared(tmp_path, f"sft/{p}")] for p in ("train", "eval", "test")
    }
    times = [asked["train"].count(f"Why {n}?") for n in range(200)]
    assert set(times[100:]) == {0, 1}
    assert set(times[:100]) == {0, 2, 3}
    assert abs(times.count(2) - times.count(3)) <= 1
    assert [len(asked[part]) for part in ("eval", "test")] == [20, 20]
    report = json.loads((tmp_path / "data/sft/report.json").read_text())["train"]
    assert (report["duplicates"], report["rows"]) == (100, sum(times))


@pytest.mark.parametrize("heavier", ["a.jsonl", "b.jsonl"])
def test_a_row_of_two_sources_is_drawn_by_the_larger_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heavier: str
) -> None:
    write(tmp_path / "a.jsonl", chats(100))
    write(tmp_path / "b.jsonl", [*chats(100), *chats(150)[100:]])
    sources = [{"path": name, "weight": 3.0 if name == heavier else 1.0} for name in ("a.jsonl", "b.jsonl")]
    emitted(tmp_path, with_key(BASES["lora-single"], "data.train", sources), monkeypatch).main()
    asked = [row["messages"][0]["content"] for row in prepared(tmp_path, "sft/train")]
    assert {asked.count(f"Why {n}?") for n in range(100)} == {0, 3}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [{**row, "messages": [row["messages"][0], {"role": "assistant", "content": " "}]} for row in chats(9)],
            "9 of 9 rows have an empty answer, or ask nothing; the first is chat.jsonl, line 1. That is more than 5%.*",
        ),
        (chats(2) * 5, "rows left for train: 2, needed: 3; dropped: exact duplicates \\(8\\)"),
        (chats(1), "rows left for train: 1, needed: 3; dropped: none"),
    ],
)
def test_too_few_rows_are_refused_with_what_dropped_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[dict], said: str
) -> None:
    module = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    write(tmp_path / "chat.jsonl", rows)
    with pytest.raises(SystemExit, match=f"^sft: {said}$"):
        module.main()


def test_rows_that_are_all_too_long_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "data.overflow", "drop"), "data.max_length", 64)
    recipe = with_key(recipe, "data.tokens_per_example", 32)
    module = emitted(tmp_path, recipe, monkeypatch)
    write(
        tmp_path / "chat.jsonl", [{"messages": turns(("user", f"{n}?"), ("assistant", "so " * 99))} for n in range(10)]
    )
    with pytest.raises(SystemExit, match=r"^sft: 100\.0% of the rows are longer than 64 tokens, more than 5%\. Raise"):
        module.main()


def test_groups_may_be_lists_and_classes_may_have_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row | {"group": [n // 10], "kind": "rare" if n == 7 else "usual"} for n, row in enumerate(chats(200))]
    write(tmp_path / "own.jsonl", rows)
    recipe = with_key(BASES["lora-single"], "data.train", "own.jsonl")
    emitted(tmp_path, with_key(recipe, "data.split", {"group": "group"}), monkeypatch).main()
    groups = {
        part: {number(row) // 10 for row in prepared(tmp_path, f"sft/{part}")} for part in ("train", "eval", "test")
    }
    assert [len(found) for found in groups.values()] == [16, 2, 2]
    assert len(set.union(*groups.values())) == 20
    emitted(tmp_path, with_key(recipe, "data.split", {"stratify": "kind"}), monkeypatch).main()
    kinds = {
        part: ["rare" if number(row) == 7 else "usual" for row in prepared(tmp_path, f"sft/{part}")]
        for part in ("train", "eval", "test")
    }
    assert [len(found) for found in kinds.values()] == [160, 20, 20]
    assert kinds["train"].count("rare") == 1


def test_a_csv_file_is_read_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Code {n}?,{'NA' if n % 2 else ''},{['007', 'None', '1.0'][n % 3]}\n" for n in range(60)]
    (tmp_path / "rows.csv").write_text("instruction,input,output\n" + "".join(lines))
    emitted(tmp_path, with_key(BASES["lora-single"], "data.train", "rows.csv"), monkeypatch).main()
    rows = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    assert {row["completion"][0]["content"] for row in rows} == {"007", "None", "1.0"}
    assert sum(row["prompt"][0]["content"].endswith("\n\nNA") for row in rows) == 30


@pytest.mark.parametrize(
    ("base", "section", "make"), [("lora-single", "train", chats), ("dpo-full", "preferences", pairs)]
)
@pytest.mark.parametrize("rows", [6, 10, 13, 25])
def test_as_many_rows_are_left_to_train_on_as_the_plan_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, section: str, make: Any, rows: int
) -> None:
    write(tmp_path / "own.jsonl", make(rows))
    recipe = with_key(with_key(BASES[base], f"data.{section}", "own.jsonl"), "data.examples", rows)
    stage = good(tmp_path, recipe).plan.stages[0]
    emitted(tmp_path, recipe, monkeypatch).main()
    counted = training_rows({id: decision.value for id, decision in stage.decisions.items()})
    assert counted == len(prepared(tmp_path, f"{stage.stage.name}/train"))


BAD_LINES = {
    "cut off": ('{"messages": [{"role": "us', "Unterminated string"),
    "a key twice": ('{"messages": [], "messages": []}', "a key stands twice in \\['messages', 'messages'\\]"),
    "half a character": ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "surrogates not allowed"),
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    line, reason = BAD_LINES[bad]
    script = emitted(tmp_path, BASES["cpu"], monkeypatch)
    write(tmp_path / "chat.jsonl", chats(300))
    with (tmp_path / "chat.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(SystemExit, match=rf"^chat\.jsonl, line 301: .*{reason}"):
        script.main()


def test_a_conversation_that_the_template_refuses_is_told_by_its_speakers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoSystem(Words):
        def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
            if messages[0]["role"] == "system":
                raise RuntimeError("System role not supported")
            return super().apply_chat_template(messages)

    script = emitted(tmp_path, BASES["cpu"], monkeypatch)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: NoSystem())
    rows = chats(60)
    rows[30]["messages"].insert(0, {"role": "system", "content": "Be kind."})
    write(tmp_path / "chat.jsonl", rows)
    with pytest.raises(SystemExit, match=r"refuses messages \(system, user, assistant\): System "):
        script.main()


@pytest.mark.parametrize("named", ["data/sft/train.jsonl", "data/sft/*.jsonl"])
def test_raw_rows_are_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    raw = tmp_path / "data" / "sft" / "train.jsonl"
    raw.parent.mkdir(parents=True)
    write(raw, chats(40))
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data", {"train": named}), monkeypatch)
    with pytest.raises(SystemExit, match=r"train\.jsonl is in the folder of the prepared rows"):
        script.main()
    assert raw.read_text().count("\n") == 40


def test_a_glob_does_not_read_what_was_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "data" / "raw" / "chat.jsonl"
    raw.parent.mkdir(parents=True)
    write(raw, chats(40))
    recipe = with_key(BASES["lora-single"], "data", {"train": "data/**/*.jsonl"})
    script = emitted(tmp_path, recipe, monkeypatch)
    script.main()
    first = prepared(tmp_path, "sft/train")
    script.named_files.cache_clear()
    script.main()
    assert prepared(tmp_path, "sft/train") == first
