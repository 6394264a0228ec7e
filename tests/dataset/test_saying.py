"""A question or an answer of invisible characters alone says nothing, when compiled and when prepared."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from compiling import BASES, CHAT, compiled, good, texts, write_data

from recipec.dataset import asks, says

INVISIBLE = "\t\n \u00a0\u00ad\u115f\u1160\u200b\u200d\u200e\u200f\u2028\u2060\u2800\u3000\u3164\ufe0f\ufeff\uffa0"
VISIBLE = ("a", ".", "0", "日", "é", "e\u0301", "🙂", "👩\u200d👧", "\u2801", "ㄱ", "_")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What prepare_data.py says with."""
    tree = ast.parse(texts(good(tmp_path_factory.mktemp("chat"), BASES["lora-single"]))["prepare_data.py"])
    wanted = ("says", "is_asked", "UNSEEN", "BLANK")
    tree.body = [node for node in tree.body if _name(node) in wanted]
    scope: dict[str, Any] = {"category": category}
    exec(compile(tree, "prepare_data.py", "exec"), scope)
    return scope


def _name(node: ast.stmt) -> str:
    return node.targets[0].id if isinstance(node, ast.Assign) else getattr(node, "name", "")


@pytest.mark.parametrize("text", ["", INVISIBLE, *INVISIBLE], ids=ascii)
def test_invisible_characters_say_nothing(text: str, prepared: dict[str, Any]) -> None:
    assert not says(text) and not prepared["says"](text)
    unasked = {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]}
    assert not asks(unasked) and not prepared["is_asked"](unasked)
    assert not asks({"prompt": [{"role": "user", "content": text}]})


@pytest.mark.parametrize("text", VISIBLE, ids=ascii)
def test_what_can_be_seen_says_something(text: str, prepared: dict[str, Any]) -> None:
    for said in (text, f"\u200b{text}\n"):
        asked = {"messages": [{"role": "user", "content": said}, {"role": "assistant", "content": "Yes."}]}
        assert says(said) and prepared["says"](said) and asks(asked) and prepared["is_asked"](asked)


def test_both_agree_on_every_character(prepared: dict[str, Any]) -> None:
    emitted: Callable[[str], bool] = prepared["says"]
    assert [point for point in range(0x11_0000) if says(chr(point)) != emitted(chr(point))] == []


@pytest.mark.parametrize(("speaker", "lacks"), [("user", "no question"), ("assistant", "no answer")])
def test_rows_that_say_nothing_are_told_when_a_recipe_is_compiled(tmp_path: Path, speaker: str, lacks: str) -> None:
    blank = [turn | {"content": "\u2800\u00ad"} if turn["role"] == speaker else turn for turn in CHAT[0]["messages"]]
    write_data(tmp_path)
    rows = [*CHAT, {"messages": blank}]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (told,) = [found for found in compiled(tmp_path, BASES["lora-single"]).diagnostics if found.code == "W0542"]
    assert told.title == f"1 of 9 sampled rows of data.train have {lacks}"
