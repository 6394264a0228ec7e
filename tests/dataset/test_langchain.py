"""Messages of LangChain: refused, with a command that makes rows of them which pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_published import SFT, advised, passes, ran

from recipec.dataset.langchain import of_langchain

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
    assert made[1]["tool_calls"][0]["function"]["name"] == "sum" and made[2]["tool_call_id"] == "c"
    assert "tool_calls" not in made[3]


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
