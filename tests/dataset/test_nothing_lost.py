"""Commands that make other rows keep what rows and messages say of how they are learned, or name what they leave out.

Every family of commands is run with rows that hold one field with a meaning, once for each of these fields.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import MEANT, MESSAGES
from recipec.dataset import DataShape, from_published, rewriting
from recipec.dataset.meaning import WEIGHTS
from recipec.dataset.message_rows import grouped, message_rows
from recipec.dataset.rewriting import conversations
from recipec.dataset.talks import rewritten
from recipec.dataset.trees import trees

Row = dict[str, Any]
PLACE, NEW = "rows.jsonl:1", "rows.new.jsonl"
FIELDS = [name for name in MEANT if name not in ("role", "parent_id")]  # these two say where a message stands
COUNT = 12


class Family(Struct, frozen=True):
    """A kind of command: what it is told of rows, and the rows, of which an answer has more fields."""

    told: Callable[[Sequence[Row]], Iterator[str]]
    rows: Callable[[Row], list[Row]]


def _grouped(rows: Sequence[Row]) -> Iterator[str]:
    found = message_rows(rows)
    assert found
    yield from grouped(rows, PLACE, found)


def _message_rows(more: Row, speakers: tuple[str, str] = ("user", "assistant")) -> list[Row]:
    turns = [(speaker, f"Says {n} {speaker}.") for n in range(COUNT) for speaker in speakers]
    fields = [more if speaker == speakers[1] else {} for speaker, _ in turns]
    named = [{"thread_id": f"t{n // 2}", "author": turn[0], "body": turn[1]} for n, turn in enumerate(turns)]
    return [row | field for row, field in zip(named, fields, strict=True)]


def _tree_rows(more: Row) -> list[Row]:
    """Single messages, which name the one that they answer."""
    turns = [(n, {"role": "prompter", "text": f"Why {n}?"}, None) for n in range(0, 2 * COUNT, 2)]
    turns += [(n, {"role": "assistant", "text": f"So {n}."} | more, f"m{n - 1}") for n in range(1, 2 * COUNT, 2)]
    return [{"message_id": f"m{n}", "parent_id": before} | turn for n, turn, before in turns]


def _whole_trees(more: Row, beside: Row | None = None) -> list[Row]:
    answers = ({"role": "assistant", "text": f"So {n}.", "replies": []} | more for n in range(COUNT))
    asked = ({"role": "prompter", "text": f"Why {n}?", "replies": [answer]} for n, answer in enumerate(answers))
    return [{"prompt": tree} | (beside or {}) for tree in asked]


def _rewritten(rows: Sequence[Row]) -> Iterator[str]:
    """Of rows that name a format, but hold its conversations in another way."""
    return rewriting(rows, [PLACE] * len(rows), DataShape("chat", {"messages": "conversation"}, MESSAGES, ""))


def _question_pairs(more: Row) -> list[Row]:
    return [{"conversation": [{"input": f"Why {n}?", "output": f"So {n}."} | more]} for n in range(COUNT)]


def _conversations(rows: Sequence[Row]) -> Iterator[str]:
    return conversations(rows, [PLACE] * len(rows), [*rows[0]])


def _talk(n: int, more: Row, speaker: str = "role", said: str = "content") -> list[Row]:
    return [{speaker: "user", said: f"Why {n}?"}, {speaker: "assistant", said: f"So {n}."} | more]


def _other_fields(more: Row, speakers: tuple[str, str] = ("user", "assistant")) -> list[Row]:
    talks = (_talk(n, more, "speaker", "text") for n in range(COUNT))
    return [{"dialog": [turn | {"speaker": who} for turn, who in zip(talk, speakers, strict=True)]} for talk in talks]


def _in_objects(more: Row) -> list[Row]:
    return [{"id": n, "data": {"turns": _talk(n, {})} | more} for n in range(COUNT)]


def _texts(more: Row) -> list[Row]:
    return [{"text": f"### Human: Why {n}?### Assistant: So {n}."} | more for n in range(COUNT)]


def _published(rows: Sequence[Row]) -> Iterator[str]:
    return from_published(rows, [PLACE] * len(rows), [*ROW_FORMATS.values()])


def _duels(more: Row) -> list[Row]:
    sides = [{"response_a": f"So {n}.", "response_b": f"No {n}.", "winner": "ab"[n % 2]} for n in range(COUNT)]
    return [{"prompt": f"Why {n}?"} | side | more for n, side in enumerate(sides)]


def _arena(more: Row) -> list[Row]:
    return [{f"conversation_{end}": _talk(n, {}) for end in "ab"} | {"winner": "model_a"} | more for n in range(COUNT)]


def _rated_lists(of_answer: Row, of_row: Row) -> list[Row]:
    answers = [[{"text": f"{score} {n}", "score": score} | of_answer for score in (1, 2)] for n in range(COUNT)]
    return [{"prompt": f"Why {n}?", "responses": answer} | of_row for n, answer in enumerate(answers)]


def _rated_rows(more: Row) -> list[Row]:
    return [{"prompt": f"Why {n // 2}?", "response": f"So {n}.", "quality": n % 2} | more for n in range(2 * COUNT)]


def _argilla(more: Row) -> list[Row]:
    return [{"prompt": f"Why {n}?", "answers": ["So.", f"No {n}."], "scores": [1, 2]} | more for n in range(COUNT)]


def _runs(of_inputs: Row, of_outputs: Row) -> list[Row]:
    runs = [({"question": f"Why {n}?"} | of_inputs, {"answer": f"So {n}."} | of_outputs) for n in range(COUNT)]
    return [{"inputs": asked, "outputs": said} for asked, said in runs]


def _logs(more: Row) -> list[Row]:
    choices = [{"choices": [{"message": _talk(n, {})[1]}]} for n in range(COUNT)]
    return [{"request": {"messages": _talk(n, {})[:1]} | more, "response": said} for n, said in enumerate(choices)]


FAMILIES = {
    "two answers and a winner": Family(_published, _duels),
    "two conversations and a winner": Family(_published, _arena),
    "answers with scores": Family(_published, lambda more: _rated_lists(more, {})),
    "rows of answers with scores": Family(_published, lambda more: _rated_lists({}, more)),
    "rows of one rated answer": Family(_published, _rated_rows),
    "lists of answers and scores": Family(_published, _argilla),
    "what a run asks": Family(_published, lambda more: _runs(more, {})),
    "what a run answers": Family(_published, lambda more: _runs({}, more)),
    "logged requests": Family(_published, _logs),
    "texts with turns": Family(lambda rows: rewritten("text", rows, "rows.jsonl"), _texts),
    "messages with other fields": Family(_conversations, _other_fields),
    "messages of two others": Family(_conversations, lambda more: _other_fields(more, ("Ann", "Desk"))),
    "conversations in objects": Family(_conversations, _in_objects),
    "pairs of input and output": Family(_rewritten, _question_pairs),
    "messages of trees": Family(lambda rows: trees(rows, PLACE), _tree_rows),
    "whole trees": Family(lambda rows: trees(rows, PLACE), _whole_trees),
    "columns of whole trees": Family(lambda rows: trees(rows, PLACE), lambda more: _whole_trees({}, more)),
    "message rows": Family(_grouped, _message_rows),
    "message rows of others": Family(_grouped, lambda more: _message_rows(more, ("ann@a.org", "desk@b.org"))),
}


def made(folder: Path, rows: Sequence[Row], line: str) -> list[Row]:
    """The rows that the command of a line makes of these."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = next(part for part in line.split("`") if part.startswith(("python3 -c", "jq ")))
    subprocess.run(command.replace("ASSISTANT", "desk@b.org"), shell=True, cwd=folder, check=True)
    return [json.loads(text) for text in (folder / NEW).read_text().splitlines()]


def _value(name: str) -> Any:
    return 1 if name in WEIGHTS else f"What {name} says."


def _holds(value: Any, name: str) -> bool:
    """Whether a field of this name, or one of another name, holds what the rows say in it."""
    if isinstance(value, dict):
        return (name, _value(name)) in ((key, held) for key, held in value.items()) or any(
            _holds(held, name) for held in value.values()
        )
    if isinstance(value, list):
        return any(_holds(held, name) for held in value)
    return name not in WEIGHTS and isinstance(value, str) and _value(name) in value


@pytest.mark.parametrize("family", FAMILIES)
def test_fields_with_a_meaning_are_kept_or_named(tmp_path: Path, family: str) -> None:
    told, rows = FAMILIES[family].told, FAMILIES[family].rows
    assert [*told(rows({}))]
    for name in FIELDS:
        held = rows({name: _value(name)})
        for line in told(held):
            kept = all(_holds(row, name) for row in made(tmp_path, held, line))
            assert kept or f"`{name}`" in line.partition(": `")[0], (name, line)


def _talks(tmp_path: Path, rows: Sequence[Row]) -> list[Row]:
    (line,) = _grouped(rows)
    return made(tmp_path, rows, line)


def test_grouped_messages_of_tools_are_messages_of_tools(tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {}}, "id": "c"}
    said = [("user", {}), ("assistant", {"tool_calls": [call]}), ("tool", {"name": "f", "tool_call_id": "c"})]
    rows = [
        {"thread_id": n, "role": role, "content": f"{role} {n}.", "name": None} | more
        for n in range(COUNT)
        for role, more in (*said, ("assistant", {}))
    ]
    turns = _talks(tmp_path, rows)[0]["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "assistant"]
    assert turns[1]["tool_calls"] == [call] and turns[2]["name"] == "f" and turns[2]["tool_call_id"] == "c"


def test_calls_that_are_texts_are_grouped_as_sharegpt_has_them(tmp_path: Path) -> None:
    speakers = ("human", "function_call", "observation", "gpt")
    rows = [{"chat_id": n, "from": who, "value": f"{who} {n}."} for n in range(COUNT) for who in speakers]
    assert [turn["from"] for turn in _talks(tmp_path, rows)[0]["messages"]] == [*speakers]


def test_only_answers_have_weights_and_the_line_counts_the_others(tmp_path: Path) -> None:
    rows = [row | {"weight": n % 2} for n, row in enumerate(_message_rows({}))]
    (line,) = _grouped(rows)
    assert f"leave out `weight` of messages that are no answers ({COUNT} of {2 * COUNT} sampled)" in line
    assert [turn.get("weight") for turn in made(tmp_path, rows, line)[0]["messages"]] == [None, 1]


def test_columns_of_conversations_are_told_where_a_message_has_another_value(tmp_path: Path) -> None:
    rows = [row | {"system": f"Be {n % 2 if n < 2 else 0}."} for n, row in enumerate(_message_rows({}))]
    (line,) = _grouped(rows)
    assert f"leave out other values of `system` in a conversation (1 of {COUNT} sampled)" in line
    assert made(tmp_path, rows, line)[3]["system"] == "Be 0."


def test_a_long_thought_is_not_what_is_said(tmp_path: Path) -> None:
    rows = _message_rows({"reasoning_content": "A long thought, with many words. " * 9})
    rows = [row | {"reasoning_content": f"{n} {row.get('reasoning_content', 'none')}"} for n, row in enumerate(rows)]
    assert _talks(tmp_path, rows)[0]["messages"][0]["content"] == "Says 0 user."


@pytest.mark.parametrize("rows", [_tree_rows, _whole_trees])
def test_answers_that_are_deleted_or_not_to_be_learned_become_no_rows(
    tmp_path: Path, rows: Callable[[Row], list[Row]]
) -> None:
    last = {0: {"deleted": True}, 1: {"weight": 0, "deleted": False}, 2: {"train": False}}
    held = [row for n in range(COUNT) for row in rows(last.get(n, {"weight": 1}))[n::COUNT]]
    (line,) = trees(held, PLACE)
    assert f"answers that are deleted or follow a deleted message (1 of {COUNT} sampled)" in line
    assert f"answers whose `weight` says that they are not learned (1 of {COUNT} sampled)" in line
    assert len(made(tmp_path, held, line)) == COUNT - 3


def test_what_follows_a_deleted_message_becomes_no_row(tmp_path: Path) -> None:
    rows = [row | {"deleted": row["message_id"] == "m0"} for row in _tree_rows({})]
    (line,) = trees(rows, PLACE)
    assert f"(1 of {COUNT} sampled)" in line
    assert [row["prompt"][0]["content"] for row in made(tmp_path, rows, line)] == [
        f"Why {n}?" for n in range(2, 2 * COUNT, 2)
    ]


def test_a_system_prompt_of_pairs_stands_before_all_and_others_are_counted(tmp_path: Path) -> None:
    pairs = [{"input": f"Why {n}?", "output": "So.", "system": "Be brief." if n < 2 else "Be kind."} for n in range(3)]
    rows = [{"conversation": pairs[:2]}, {"conversation": pairs}, {"conversation": []}]
    (line,) = _rewritten(rows)
    assert "leave out other `system` of a conversation (1 of 3 sampled)" in line
    assert [turn["role"] for turn in made(tmp_path, rows, line)[0]["conversation"]] == [
        "system",
        *("user", "assistant") * 2,
    ]


def test_pairs_that_some_rows_have_not_are_not_rewritten() -> None:
    rows = [*_question_pairs({}), {"conversation": [{"role": "user", "content": "Why?"}]}]
    assert not any("input" in line for line in _rewritten(rows))


@pytest.mark.parametrize(
    "old", [{"content": [{"type": "tool_use", "name": "f"}]}, {"role": "staff"}, {"content": "Something else."}]
)
def test_messages_are_not_rewritten_over_another_role_or_content(old: Row) -> None:
    assert not [*_conversations(_other_fields(old))]


def test_a_role_that_says_the_same_is_written_over(tmp_path: Path) -> None:
    rows = _other_fields({"role": "assistant"})
    (line,) = _conversations(rows)
    assert made(tmp_path, rows, line)[0]["messages"] == _talk(0, {})


def test_a_column_that_new_messages_take_the_place_of_is_named() -> None:
    (line,) = _conversations([row | {"messages": "A note."} for row in _other_fields({})])
    assert "in place of what `messages` holds" in line


@pytest.mark.parametrize("other", [_talk(9, {}), None, "A text.", {"notes": "None."}])
def test_rows_without_the_object_stay_as_they_are(tmp_path: Path, other: Any) -> None:
    rows = [{"id": 9, "data": other}, *_in_objects({"x": 1})]
    (line,) = _conversations(rows)
    first, *others = made(tmp_path, rows, line)
    assert first == rows[0]
    assert others == [{"x": 1, "id": n, "data": _talk(n, {})} for n in range(COUNT)]


@pytest.mark.parametrize(
    "text",
    [
        "Be nice.\n### Human: Why?### Assistant: So.",
        "### System: Be nice.### Human: Why?### Assistant: So.",
        "### Human: Why?\n### Response: So.",
        "### Human: Why?\n### assistant: So.",
        "### Human: Write '### Assistant: x'.### Assistant: So.",
    ],
)
def test_texts_that_are_not_taken_apart_as_a_whole_are_left_out_and_counted(tmp_path: Path, text: str) -> None:
    rows = [*_texts({}), {"text": text}]
    (line,) = rewritten("text", rows, "rows.jsonl")
    assert f"in turn (1 of {COUNT + 1} sampled): `" in line
    assert len(made(tmp_path, rows, line)) == COUNT
    assert not [*rewritten("text", rows[-1:], "rows.jsonl")]


def test_a_heading_in_an_answer_is_a_part_of_it(tmp_path: Path) -> None:
    rows = [{"text": "### Human: Why?### Assistant: So.\n### Example:\nThis."}]
    (line,) = rewritten("text", rows, "rows.jsonl")
    assert made(tmp_path, rows, line)[0]["conversations"][1]["value"] == "So.\n### Example:\nThis."


def test_ties_are_counted(tmp_path: Path) -> None:
    (pairs, *_) = _published([*_rated_lists({}, {}), *_rated_lists({"score": 3}, {})[:2]])
    assert f"leave out rows whose answers are rated alike (2 of {COUNT + 2} sampled)" in pairs
    (pairs, *_) = _published([row | {"scores": [1, 1]} if n < 2 else row for n, row in enumerate(_argilla({}))])
    assert f"(2 of {COUNT} sampled)" in pairs
    (pairs, *_) = _published([row | {"quality": 1} if n < 2 else row for n, row in enumerate(_rated_rows({}))])
    assert f"leave out every `prompt` whose answers are rated alike (1 of {COUNT} sampled)" in pairs
    talks = [row | {"conversation_b": _talk(99, {})} if n < 3 else row for n, row in enumerate(_arena({}))]
    (pairs, *_) = _published(talks)
    assert f"differ before the last message (3 of {COUNT} sampled)" in pairs


def test_answers_are_compared_under_one_system_prompt(tmp_path: Path) -> None:
    rows = [row | {"system": f"Be {n % 2}."} for n, row in enumerate(_rated_rows({}))]
    assert not [*_published(rows)]  # each prompt is asked once under each of both
    rows = [row | {"system": f"Be {n // 2 % 2}."} for n, row in enumerate(_rated_rows({}))]
    (pairs, *_) = _published(rows)
    assert [row["system"] for row in made(tmp_path, rows, pairs)[:2]] == ["Be 0.", "Be 1."]


def test_runs_without_an_answer_are_counted() -> None:
    rows = [row | {"outputs": None} if n < 2 else row for n, row in enumerate(_runs({}, {}))]
    (line,) = _published(rows)
    assert f"without those that have none (2 of {COUNT} sampled)" in line
