"""Messages of LangChain: refused, with a command that makes rows of them which pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compiling import Tables, compiled, with_key
from test_published import SFT, advised, passes, ran

from recipec.dataset.langchain import of_langchain

MADE: Tables = with_key(SFT, "data.train", "rows.new.jsonl")
SAID = [("system", "Be brief."), ("human", "Why {}?"), ("ai", "So {}.")]
READ = [("system", "Be brief."), ("user", "Why 1?"), ("assistant", "So 1.")]
CLASSES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage"}
MORE: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}, "tool_calls": [], "id": None}


def dumped(word: str, text: str) -> dict[str, Any]:
    id = ["langchain", "schema", "messages", CLASSES[word]]
    return {"lc": 1, "type": "constructor", "id": id, "kwargs": {"content": text, "type": word}}


WAYS: dict[str, Callable[[str, str], Any]] = {
    "type": lambda word, text: {"type": word, "content": text},
    "model_dump": lambda word, text: {"type": word, "content": text, **MORE},
    "message_to_dict": lambda word, text: {"type": word, "data": {"content": text, "type": word, **MORE}},
    "dumpd": dumped,
    "pairs": lambda word, text: [word, text],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("placeholder", [False, True])
def test_messages_of_langchain_are_rewritten(tmp_path: Path, way: str, placeholder: bool) -> None:
    rows = [{"messages": [WAYS[way](word, text.format(n)) for word, text in SAID]} for n in range(40)]
    for row in rows if placeholder and way != "dumpd" else ():
        row["messages"].insert(1, WAYS[way]("placeholder", "{history}"))
    line = advised(tmp_path, SFT, rows)[0]
    assert line.startswith("to read messages of LangChain")
    assert ("leave out placeholders" in line) == (placeholder and way != "dumpd")
    ran(tmp_path, line)
    made = passes(tmp_path, SFT)[1]["messages"]
    assert made == [{"role": role, "content": text} for role, text in READ]


def test_placeholders_among_roles_are_left_out(tmp_path: Path) -> None:
    said = [("system", "Be brief."), ("placeholder", "{history}"), ("human", "Why?"), ("ai", "So.")]
    rows = [{"messages": [{"role": word, "content": f"{text}{n}"} for word, text in said]} for n in range(40)]
    ran(tmp_path, advised(tmp_path, SFT, rows)[0])
    assert [turn["role"] for turn in passes(tmp_path, SFT)[0]["messages"]] == ["system", "user", "assistant"]


@pytest.mark.parametrize("old", [False, True])
def test_calls_of_tools_and_their_results_stay(tmp_path: Path, old: bool) -> None:
    """`additional_kwargs` has the calls as OpenAI writes them."""
    openai = {"id": "c", "type": "function", "function": {"name": "sum", "arguments": '{"a": 1}'}}
    calls = {"additional_kwargs": {"tool_calls": [openai]}} if old else {
        "tool_calls": [{"name": "sum", "args": {"a": 1}, "id": "c", "type": "tool_call"}]
    }  # fmt: skip
    tool = {"type": "function", "function": {"name": "sum", "parameters": {"type": "object", "properties": {}}}}
    rows = [
        {
            "messages": [
                {"type": "human", "content": f"Why {n}?"},
                {"type": "ai", "content": "", **calls},
                {"type": "tool", "content": "1", "tool_call_id": "c", "name": "sum"},
                {"type": "ai", "content": "So.", "tool_calls": []},
            ],
            "tools": [tool],
        }
        for n in range(40)
    ]
    ran(tmp_path, advised(tmp_path, SFT, rows)[0])
    made = passes(tmp_path, SFT)[0]["messages"]
    assert made[1]["tool_calls"][0]["function"]["name"] == "sum"
    assert (made[2]["tool_call_id"], made[2]["name"]) == ("c", "sum")
    assert "tool_calls" not in made[3]


@pytest.mark.parametrize(("field", "value"), [("reasoning_content", "Well."), ("weight", 0), ("train", False)])
@pytest.mark.parametrize("added", [False, True], ids=["own", "additional_kwargs"])
@pytest.mark.parametrize("way", ["type", "message_to_dict", "dumpd"])
def test_thoughts_and_weights_stay(tmp_path: Path, way: str, added: bool, field: str, value: object) -> None:
    """DeepSeek's integration puts thoughts in `additional_kwargs`; a weight of 0 keeps an answer from being trained."""
    rows = [{"messages": [WAYS[way](word, text.format(n)) for word, text in [*SAID, *SAID[1:]]]} for n in range(40)]
    for row in (rows := json.loads(json.dumps(rows))):
        turn = row["messages"][2]
        held = turn.get("kwargs", turn.get("data", turn))
        (held.setdefault("additional_kwargs", {}) if added else held)[field] = value
    ran(tmp_path, advised(tmp_path, SFT, rows)[0])
    made = [json.loads(line)["messages"] for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert len(made) == 40 and all(turns[2][field] == value for turns in made)
    assert all(turns[2].keys() == {"role", "content", field} for turns in made)
    told = [found for found in compiled(tmp_path, MADE, only_plan=True).diagnostics if found.code[0] == "E"]
    assert [found.code for found in told] == ["E0309"] * (value == "Well.")  # which asks how to learn thoughts


def test_fields_that_nothing_reads_are_named_once_the_rows_are_read(tmp_path: Path) -> None:
    rows = [{"messages": [WAYS["model_dump"](word, text.format(n)) for word, text in SAID]} for n in range(40)]
    for row in rows:
        row["messages"][1] |= {"name": "Ann", "response_metadata": {"finish_reason": "stop"}, "id": "run-1"}
    ran(tmp_path, advised(tmp_path, SFT, rows)[0])
    (told,) = [found for found in compiled(tmp_path, MADE, only_plan=True).diagnostics if found.code == "W0516"]
    assert told.labels[0].message == "nothing reads `name`"


def test_messages_that_contradict_themselves_are_left_to_the_user() -> None:
    turns = [{"type": "ai", "weight": 0, "data": {"content": "So.", "weight": 1}}]
    assert not [*of_langchain([{"messages": turns}], ["messages"])]


@pytest.mark.parametrize(
    "turns",
    [
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],  # what is read needs no program
        [{"type": "event", "content": "a"}, {"type": "ai", "content": "b"}],
        [{"type": "text", "text": "a"}],
        [["a", "b"], ["c", "d"]],
        [["human", "a", "b"]],
        [1, 2],
    ],
)
def test_other_lists_are_not_taken_for_messages(turns: list[Any]) -> None:
    assert not [*of_langchain([{"messages": turns}], ["messages"])]
