"""A question or an answer of invisible characters alone says nothing, when compiled and when prepared."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from compiling import BASES, CHAT, Tables, compiled, good, texts, with_key, write_data

from recipec.dataset import asks, says

INVISIBLE = "\t\n \u00a0\u00ad\u115f\u1160\u200b\u200d\u200e\u200f\u2028\u2060\u2800\u3000\u3164\ufe0f\ufeff\uffa0"
VISIBLE = ("a", ".", "0", "日", "é", "e\u0301", "🙂", "👩\u200d👧", "\u2801", "ㄱ", "_")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What prepare_data.py says with."""
    return emitted(tmp_path_factory.mktemp("chat"), BASES["lora-single"])


def emitted(folder: Path, recipe: Tables) -> dict[str, Any]:
    """What decides in prepare_data.py whether a row asks anything."""
    tree = ast.parse(texts(good(folder, recipe))["prepare_data.py"])
    wanted = ("says", "is_asked", "behind_answers", "UNSEEN", "BLANK", "SYSTEM")
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


def turns(*said: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in said]


SYSTEM, ASK, EMPTY, RESULT = ("system", "Be kind."), ("user", "Why?"), ("user", " "), ("tool", "20")
ANSWER = ("assistant", "So.")
# What is said before an answer -> whether it asks anything.
ASKED: dict[str, tuple[list[tuple[str, str]], bool]] = {
    "a question": ([ASK], True),
    "an empty question": ([EMPTY], False),
    "an empty question behind a system prompt": ([SYSTEM, EMPTY], False),
    "a question behind a system prompt": ([SYSTEM, ASK], True),
    "a system prompt alone": ([SYSTEM], True),
    "an empty system prompt alone": ([("system", "")], False),
    "nothing": ([], False),
    "an empty question first": ([EMPTY, ANSWER, ASK], False),
    "an empty question last": ([ASK, ANSWER, EMPTY], False),
    "a result of a tool": ([ASK, ANSWER, RESULT], True),
    "a result of a tool alone": ([RESULT], True),
    "an empty result of a tool": ([ASK, ANSWER, ("tool", "")], True),
}


@pytest.mark.parametrize("base", ["lora-single", "dpo-full", "sft-dpo"])
def test_a_system_prompt_replaces_no_question(tmp_path: Path, base: str) -> None:
    """Nor does one question replace another, in conversations as before pairs."""
    is_asked = emitted(tmp_path, BASES[base])["is_asked"]
    for name, (said, wanted) in ASKED.items():
        talk = {"messages": turns(*said, ANSWER)}
        rows = [{"prompt": turns(*said)}] if base == "dpo-full" else [talk]
        rows += [{"prompt": turns(*said)}] if base == "sft-dpo" else []
        assert [asks(row) for row in rows] == [is_asked(row) for row in rows] == [wanted] * len(rows), name


def test_an_empty_question_behind_the_last_answer_is_no_part_of_what_is_learned(prepared: dict[str, Any]) -> None:
    row = {"messages": turns(ASK, ANSWER, EMPTY)}
    assert asks(row) and prepared["is_asked"](row)


@pytest.mark.parametrize(("base", "column"), [("lora-single", "messages"), ("dpo-full", "prompt")])
def test_the_system_prompt_of_the_recipe_asks_nothing(tmp_path: Path, base: str, column: str) -> None:
    """It is added when rows are prepared, and not when the recipe is compiled; a row's own one is in both."""
    is_asked = emitted(tmp_path, with_key(BASES[base], "data.system", SYSTEM[1]))["is_asked"]
    answer = [ANSWER] if column == "messages" else []
    for said in ([EMPTY], [], [ASK], [ASK, ANSWER, EMPTY], [("user", SYSTEM[1])]):
        at_build, added = asks({column: turns(*said, *answer)}), {column: turns(SYSTEM, *said, *answer)}
        assert at_build == is_asked(added) == (said[-1:] != [EMPTY] and said != []), said
    own = {column: turns(("system", "Rhyme."), *answer)}
    assert asks(own) and is_asked(own)


@pytest.mark.parametrize(("speaker", "lacks"), [("user", "ask nothing"), ("assistant", "have an empty answer")])
def test_rows_that_say_nothing_are_told_when_a_recipe_is_compiled(tmp_path: Path, speaker: str, lacks: str) -> None:
    blank = [turn | {"content": "\u2800\u00ad"} if turn["role"] == speaker else turn for turn in CHAT[0]["messages"]]
    write_data(tmp_path)
    rows = [*CHAT, {"messages": blank}]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (told,) = [found for found in compiled(tmp_path, BASES["lora-single"]).diagnostics if found.code == "W0542"]
    assert told.title == f"1 of 9 sampled rows of data.train {lacks}"
