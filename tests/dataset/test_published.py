"""Rows of public datasets as they come: refused, with a command that makes rows of them which pass."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.dataset import SAMPLE_ROWS

Rows = list[dict[str, Any]]
SFT: Tables = {**BASES["lora-single"], "data": {"train": "rows.jsonl"}}
DPO: Tables = {**BASES["dpo-full"], "data": {"preferences": "rows.jsonl"}}
REWARD: Tables = {**BASES["reward"], "data": {"preferences": "rows.jsonl"}}
MANY = range(400)


def said(role: str, content: str | None, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content} | fields


def _ultrafeedback(number: int) -> dict[str, Any]:
    """The third answer is the best but in every tenth row, of which all are as good."""
    scores = (5.0, 4.5, 8.0 + number % 3, None) if number % 10 else (5.0, 5.0, 5.0, None)
    answers = [
        {
            "model": f"m{n}",
            "response": f"Answer {n} to {number}.",
            "annotations": {"Rating": "4"},
            "overall_score": score,
        }
        for n, score in enumerate(scores)
    ]
    return {"source": f"s{number // 4}", "instruction": f"Why {number}?", "models": ["m0"], "completions": answers}


def _arena(number: int) -> dict[str, Any]:
    asked, more = said("user", f"Why {number}?"), said("user", "And then?")
    talks = {end: [asked, said("assistant", f"{end} says {number}.")] for end in "ab"}
    if number % 10 == 4:  # model_a wins, but its first answer is not that of the other
        talks = {end: [*talk, more, said("assistant", f"{end} adds.")] for end, talk in talks.items()}
    winner = ("model_a", "model_b", "tie", "tie (bothbad)")[number % 4]
    return {"winner": winner, "judge": f"j{number}"} | {f"conversation_{end}": talk for end, talk in talks.items()}


def _nectar(number: int) -> dict[str, Any]:
    before = "\n\nHuman: Hi!\n\nAssistant: Hello.\nAsk." * (number % 2)
    answers = [{"answer": f"Answer {n} to {number}.", "model": "m", "rank": rank} for n, rank in enumerate((2.0, 1, 3))]
    return {"prompt": f"{before}\n\nHuman: Why {number}?\n\nAssistant: ", "answers": answers, "turns": 1}


def _helpsteer(number: int) -> dict[str, Any]:
    rated = {"helpfulness": (1, 4, 3, 3)[number % 4], "coherence": 4}
    return {"prompt": f"Why {number // 2}?", "response": f"Answer {number}."} | rated


def _pair_in_list(number: int) -> dict[str, Any]:
    rest = {"instruction": f"Add {number}", "input": f"to {number}." * (number % 2), "system": "You add."}
    return rest | {"output": [f"It is {2 * number}.", "I do not know."]}


def advised(folder: Path, recipe: Tables, rows: Rows, file: str = "rows.jsonl") -> list[str]:
    """The help of the one error that these rows are refused with."""
    text = json.dumps(rows) if file == "rows.json" else "".join(json.dumps(row) + "\n" for row in rows)
    if file.endswith(".parquet"):
        parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        parquet.write_table(arrow.Table.from_pylist(rows), folder / file)
    else:
        (folder / file).write_text(text)
    return _help(folder, _reading(recipe, file))


def _reading(recipe: Tables, file: str) -> Tables:
    """The recipe with another file."""
    part = next(name for name in ("train", "preferences") if name in recipe["data"])
    return with_key(recipe, f"data.{part}", file)


def _help(folder: Path, recipe: Tables) -> list[str]:
    (error,) = [found for found in compiled(folder, recipe).diagnostics if found.code.startswith("E")]
    return [*error.help]


def ran(folder: Path, line: str) -> None:
    """Run the command of a line as a user would, with the Python that runs the tests."""
    command = next(part for part in line.split("`") if part.startswith(("python3 ", "jq ", "gzip ")))
    if not shutil.which(command.split()[0]) and not command.startswith("python3"):
        pytest.skip(f"{command.split()[0]} is not installed")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=True, timeout=60, env=os.environ | {"PATH": path})


def passes(folder: Path, recipe: Tables, file: str = "rows.new.jsonl") -> Rows:
    """The rows that a command made, which the recipe takes."""
    errors = [found for found in compiled(folder, _reading(recipe, file)).diagnostics if found.code.startswith("E")]
    assert not errors
    return [json.loads(line) for line in (folder / file).read_text().splitlines()] if "jsonl" in file else []


FIRST_PAIRS: dict[Callable[[int], dict[str, Any]], tuple[int, dict[str, Any]]] = {
    _ultrafeedback: (360, {"prompt": "Why 1?", "chosen": "Answer 2 to 1.", "rejected": "Answer 1 to 1."}),
    _nectar: (
        400,
        {"prompt": [said("user", "Why 0?")], "chosen": "Answer 1 to 0.", "rejected": "Answer 2 to 0."},
    ),
    _arena: (
        180,
        {
            "chosen": [said("user", "Why 0?"), said("assistant", "a says 0.")],
            "rejected": [said("user", "Why 0?"), said("assistant", "b says 0.")],
        },
    ),
    _helpsteer: (100, {"prompt": "Why 0?", "chosen": "Answer 1.", "rejected": "Answer 0."}),
    _pair_in_list: (
        400,
        {"system": "You add.", "prompt": "Add 0", "chosen": "It is 0.", "rejected": "I do not know."},
    ),
}


@pytest.mark.parametrize("recipe", [DPO, REWARD], ids=["dpo", "reward"])
@pytest.mark.parametrize("row", FIRST_PAIRS)
def test_pairs_are_made_of_what_the_rows_say_is_better(
    tmp_path: Path, row: Callable[[int], dict[str, Any]], recipe: Tables
) -> None:
    (line,) = advised(tmp_path, recipe, [row(number) for number in MANY])
    ran(tmp_path, line)
    made = passes(tmp_path, recipe)
    assert (len(made), made[0]) == FIRST_PAIRS[row]


@pytest.mark.parametrize("file", ["rows.json", "lines.json", "my rows.jsonl", "rows.parquet"])
def test_files_of_every_kind_are_read(tmp_path: Path, file: str) -> None:
    (line,) = advised(tmp_path, DPO, [_ultrafeedback(number) for number in MANY], file)
    ran(tmp_path, line)
    assert len(passes(tmp_path, DPO, file.partition(".")[0] + ".new.jsonl")) == 360


@pytest.mark.parametrize(
    ("row", "count", "first"),
    [
        (_ultrafeedback, 400, {"prompt": "Why 1?", "completion": "Answer 2 to 1."}),
        (_arena, 200, {"messages": [said("user", "Why 1?"), said("assistant", "b says 1.")]}),
        (_nectar, 400, None),
    ],
)
def test_the_better_answer_alone_is_learned(
    tmp_path: Path, row: Callable[[int], dict[str, Any]], count: int, first: dict[str, Any] | None
) -> None:
    lines = advised(tmp_path, SFT, [row(number) for number in MANY])
    ran(tmp_path, lines[0])
    made = passes(tmp_path, SFT)
    assert len(made) == count
    assert first in (None, made[1])


def test_a_text_of_turns_becomes_the_prompt(tmp_path: Path) -> None:
    ran(tmp_path, advised(tmp_path, DPO, [_nectar(number) for number in MANY])[0])
    hello = [said("user", "Hi!"), said("assistant", "Hello.\nAsk.")]
    assert passes(tmp_path, DPO)[1]["prompt"] == [*hello, said("user", "Why 1?")]


def test_ties_are_named_and_earlier_turns_never_lost(tmp_path: Path) -> None:
    (line,) = advised(tmp_path, DPO, [_arena(number) for number in MANY])
    assert "names neither side (200 of 400 sampled)" in line
    talks = [_pair_in_list(number) | {"history": [["Hi", "Hello"]]} for number in MANY]
    assert not any("python3" in line for line in advised(tmp_path, DPO, talks))


def test_answers_that_nothing_compares_make_no_pairs(tmp_path: Path) -> None:
    rows = [_helpsteer(number) | {"prompt": f"Why {number}?"} for number in MANY]
    assert not any("make a pair" in line for line in advised(tmp_path, REWARD, rows))


def _older(number: int) -> dict[str, Any]:
    """A call of a tool as OpenAI wrote it first, in a conversation that begins as OpenAI writes it now."""
    call = {"name": "sky", "arguments": '{"at": "Rome"}'}
    said_by = [
        said("developer", "Be brief."),
        said("user", f"How is day {number}?"),
        said("assistant", None if number % 2 else "", function_call=call),
        said("function", "Sunny.", name="sky"),
        said("assistant", f"Day {number} is sunny."),
    ]
    at = {"type": "object", "properties": {"at": {"type": "string"}}}
    return {"messages": said_by, "functions": [{"name": "sky", "parameters": at}]}


@pytest.mark.parametrize("file", ["rows.jsonl", "rows.parquet"])
def test_older_messages_of_openai_are_rewritten(tmp_path: Path, file: str) -> None:
    rows = [_older(number) for number in MANY]
    call = {"type": "function", "function": rows[0]["messages"][2]["function_call"]}
    (line,) = advised(tmp_path, SFT, rows, file)
    ran(tmp_path, line)
    system, _, called, result, _ = passes(tmp_path, SFT)[0]["messages"]
    assert (system["role"], result["role"], called["tool_calls"]) == ("system", "tool", [call])


def test_a_call_that_nothing_answers_is_no_answer_without_it(tmp_path: Path) -> None:
    rows = [row | {"messages": row["messages"][1:3]} for row in map(_older, MANY[::2])]
    ran(tmp_path, advised(tmp_path, SFT, rows)[-1])
    assert passes(tmp_path, SFT)[0]["messages"][1]["tool_calls"]


@pytest.mark.parametrize("quotes", [False, True])
@pytest.mark.parametrize(
    ("mark", "file"), [(";", "rows.csv"), ("\t", "rows.csv"), ("|", "rows.csv"), ("\t", "rows.tsv")]
)
def test_other_marks_between_fields_become_commas(tmp_path: Path, mark: str, file: str, quotes: bool) -> None:
    quote = '"' * quotes
    rows = [("prompt", "completion"), *((f"Why, then, {n}?", f"So {n}.") for n in MANY)]
    lines = (mark.join(f"{quote}{text}{quote}" for text in row) for row in rows)
    (tmp_path / file).write_text("\ufeff" + "\r\n".join(lines))
    (line,) = _help(tmp_path, _reading(SFT, file))
    ran(tmp_path, line)
    passes(tmp_path, SFT, "rows.new.csv")


@pytest.mark.parametrize("pattern", ["part 1.jsonl.gz", "part*.jsonl.gz"])
def test_packed_files_are_unpacked(tmp_path: Path, pattern: str) -> None:
    for name in ("part 1", "part 2")[: 1 + ("*" in pattern)]:
        rows = (json.dumps({"prompt": f"Why {name} {n}?", "completion": "So."}) + "\n" for n in range(SAMPLE_ROWS))
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress("".join(rows).encode()))
    (line,) = _help(tmp_path, _reading(SFT, pattern))
    ran(tmp_path, line)
    (named,) = line.split("`")[3::2]
    assert not [one for one in compiled(tmp_path, _reading(SFT, named)).diagnostics if one.code.startswith("E")]


def test_columns_that_the_recipe_names_stay(tmp_path: Path) -> None:
    grouped = with_key(DPO, "data.split", {"group": "source"})
    ran(tmp_path, advised(tmp_path, grouped, [_ultrafeedback(number) for number in MANY])[0])
    assert passes(tmp_path, grouped)[0]["source"] == "s0"


def test_columns_beside_labeled_conversations_stay(tmp_path: Path) -> None:
    talk = [said("user", "Why {}?"), said("assistant", "So {}.")]
    rows = [
        {
            "messages": [turn | {"content": turn["content"].format(number)} for turn in talk],
            "kto_tag": number % 2 == 0,
            "team": f"t{number // 2}",
        }
        for number in MANY
    ]
    grouped = with_key(DPO, "data.split", {"group": "team"})
    ran(tmp_path, advised(tmp_path, grouped, rows)[0])
    assert passes(tmp_path, grouped)[0].keys() == {"prompt", "completion", "label", "team"}


@pytest.mark.parametrize("whole", [False, True], ids=["messages", "trees"])
def test_columns_beside_trees_stay(tmp_path: Path, whole: bool) -> None:
    rows: Rows = []
    for n in MANY:
        asked, answered = {"role": "prompter", "text": f"Why {n}?"}, {"role": "assistant", "text": f"So {n}."}
        tree = {"message_tree_id": f"t{n}"}
        rows.append(tree | {"prompt": asked | {"replies": [answered | {"replies": []}]}})
        if not whole:
            first = asked | tree | {"message_id": f"a{n}", "parent_id": None}
            rows[-1:] = [first, answered | tree | {"message_id": f"b{n}", "parent_id": f"a{n}"}]
    grouped = with_key(SFT, "data.split", {"group": "message_tree_id"})
    ran(tmp_path, advised(tmp_path, grouped, rows)[0])
    assert passes(tmp_path, grouped)[3]["message_tree_id"] == "t3"


def _told(folder: Path, recipe: Tables, words: str) -> str:
    """The line of help with these words, beside whatever else is told."""
    return next(line for found in compiled(folder, recipe).diagnostics for line in found.help if words in line)


WILD = "my rating'; touch pwned; '"


def test_a_column_s_name_does_not_end_a_word_of_the_shell(tmp_path: Path) -> None:
    kto: Tables = {**BASES["kto"], "data": {"preferences": "rows.jsonl", "columns": {"label": WILD}}}
    rows = [{"prompt": f"Why {number}?", "completion": "So.", WILD: number % 5} for number in MANY]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran(tmp_path, _told(tmp_path, kto, '{"label": '))
    assert json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[3])["label"] is True
    (tmp_path / "rows.json").write_text(json.dumps({WILD: [{"prompt": "Why?", "completion": "So."}]}))
    ran(tmp_path, _told(tmp_path, _reading(SFT, "rows.json"), "one a line"))
    assert json.loads((tmp_path / "rows.new2.jsonl").read_text()) == {"prompt": "Why?", "completion": "So."}
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("columns", [{}, {"columns": {"label": "rating"}}])
def test_a_scale_that_begins_as_a_flag_does_is_a_scale(tmp_path: Path, columns: dict[str, Any]) -> None:
    kto: Tables = {**BASES["kto"], "data": {"preferences": "rows.jsonl", **columns}}
    rows = [{"prompt": f"Why {number}?", "completion": "So.", "rating": number % 5} for number in MANY]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    helps = [line for found in compiled(tmp_path, kto).diagnostics for line in found.help]
    assert not any(line.startswith(("name the column", "if they are")) for line in helps)
    ran(tmp_path, _told(tmp_path, kto, "`rating` holds numbers from 0 to 4"))
    usual = {**kto, "data": {"preferences": "rows.new.jsonl", "ignore": ["rating"]}}
    assert not [found for found in compiled(tmp_path, usual).diagnostics if found.code.startswith("E")]


@pytest.mark.parametrize(
    "rows",
    [
        [{"prompt": "Why?", "response": "So.", "helpfulness": 3}, {"response": "No.", "helpfulness": 1}],
        [{"prompt": "Why?", "response_a": "So.", "response_b": "No.", "winner": [0, 1]}] * 2,
        [{"prompt": "Why?", "response_a": "So.", "response_b": "No.", "winner": {"model": "a"}}] * 2,
    ],
    ids=["no prompt", "winner list", "winner object"],
)
@pytest.mark.parametrize("recipe", [SFT, DPO])
def test_rows_that_only_look_like_published_ones_are_refused_in_words(
    tmp_path: Path, rows: Rows, recipe: Tables
) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 4))
    assert any(found.code[:3] == "E03" for found in compiled(tmp_path, recipe, only_plan=True).diagnostics)


@pytest.mark.parametrize(("asks", "answers"), [("request", "response"), ("input", "output")])
def test_logged_requests_become_conversations_with_their_answers(tmp_path: Path, asks: str, answers: str) -> None:
    """The envelope of JSON around the answer is not what a model is to learn."""
    tool = {"type": "function", "function": {"name": "sum", "parameters": {"type": "object", "properties": {}}}}
    rows: Rows = [
        {
            "id": f"log-{n}",
            asks: {"model": "m", "messages": [said("user", f"Why {n}?")], "tools": [tool]},
            answers: {"choices": [{"index": 0, "message": said("assistant", f"So {n}.", refusal=None)}], "usage": {}},
        }
        for n in range(40)
    ]
    rows[5][answers] = None
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = [one for one in compiled(tmp_path, SFT, only_plan=True).diagnostics if one.code[0] == "E"]
    assert found.code == "E0305" and "1 of 40" in found.help[0]
    assert not any("columns =" in line for line in found.help)
    subprocess.run(found.help[0].split("`")[-2], shell=True, cwd=tmp_path, check=True, timeout=60)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert len(made) == 39 and [turn["content"] for turn in made[0]["messages"]] == ["Why 0?", "So 0."]
    assert made[0]["tools"] == [tool]
    (tmp_path / "rows.jsonl").write_text((tmp_path / "rows.new.jsonl").read_text())
    assert not [one for one in compiled(tmp_path, SFT, only_plan=True).diagnostics if one.code[0] == "E"]


@pytest.mark.parametrize("calls", [False, True])
def test_outputs_of_batches_are_joined_with_their_requests(tmp_path: Path, calls: bool) -> None:
    tool = {"type": "function", "function": {"name": "sum", "parameters": {"type": "object", "properties": {}}}}
    call = {"id": "c", "type": "function", "function": {"name": "sum", "arguments": "{}"}}
    rows, requests = [], []
    for n in range(40):
        turn = said("assistant", None, tool_calls=[call]) if calls else said("assistant", f"So {n}.", refusal=None)
        body = {"object": "chat.completion", "choices": [{"index": 0, "message": turn}], "usage": {}}
        response = {"status_code": 200, "request_id": f"r{n}", "body": body}
        rows.append({"id": f"batch_req_{n}", "custom_id": f"ask-{n}", "response": response, "error": None})
        asked = {"model": "m", "messages": [said("user", f"Why {n}?")]} | ({"tools": [tool]} if calls else {})
        requests.append({"custom_id": f"ask-{n}", "method": "POST", "url": "/v1/chat/completions", "body": asked})
    rows[5] |= {"response": None, "error": {"code": "batch_expired"}}
    line = advised(tmp_path, SFT, rows)[0]
    assert "1 of 40" in line and "requests.jsonl" in line.split("`")[0]
    (tmp_path / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(requests)))
    ran(tmp_path, line)
    made = passes(tmp_path, SFT)
    assert len(made) == 39 and made[0]["messages"][0]["content"] == "Why 0?"
    assert all(row["messages"][1]["role"] == "assistant" for row in made)


@pytest.mark.parametrize("file", ["rows.jsonl", "rows.parquet"])
def test_thoughts_between_other_tags_are_renamed(tmp_path: Path, file: str) -> None:
    text = "<reasoning>\nHm.\n</reasoning>\nSo."
    rows = [{"messages": [said("user", f"Why {n}?"), said("assistant", text)]} for n in range(40)]
    recipe = with_key(SFT, "model.name", "Qwen/Qwen3-4B")
    if file.endswith(".parquet"):
        parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / file)
    else:
        (tmp_path / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = [one for one in compiled(tmp_path, _reading(recipe, file)).diagnostics if one.code == "W0522"]
    command = found.help[0].split(" with ")[-1].strip("`")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=60)
    made = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert len(made) == 40 and made[0]["messages"][1]["content"] == "<think>\nHm.\n</think>\nSo."
