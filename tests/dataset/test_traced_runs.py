"""Runs as LangSmith and Langfuse log them: refused, with a command that makes rows of them which pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_published import DPO, SFT, advised, passes, ran, said

Row = dict[str, Any]


def _sent(number: int) -> list[Row]:
    return [said("system", "Be brief."), said("user", f"Why {number}?")]


def _asked(number: int, **fields: Any) -> Row:
    return {"question": f"Why {number}?", **fields}


def _answered(number: int, **fields: Any) -> Row:
    return {"answer": f"So {number}.", **fields}


@pytest.mark.parametrize("reply", [lambda n: said("assistant", f"So {n}."), lambda n: f"So {n}."])
def test_messages_and_the_one_that_came_back_become_a_conversation(tmp_path: Path, reply: Callable[[int], Any]) -> None:
    rows = [{"input": _sent(n), "output": reply(n)} for n in range(40)]
    rows[5]["output"] = None
    lines = advised(tmp_path, SFT, rows)
    assert "1 of 40" in lines[0] and not any("columns =" in line for line in lines)
    ran(tmp_path, lines[0])
    made = passes(tmp_path, SFT)
    assert len(made) == 39 and made[0] == {"messages": [*_sent(0), said("assistant", "So 0.")]}


@pytest.mark.parametrize(
    ("inputs", "told", "first"),
    [
        (lambda n: _asked(n), "what `inputs` asks with what `outputs` says", "Why 0?"),
        (lambda n: _asked(n, tone="kind", k=n), "asks, `question` and `tone` together, with", "Why 0?\n\nkind"),
        (lambda n: _asked(n, **{"tone": "kind"} if n else {}), "asks, `question` and `tone` together, with", "Why 0?"),
        (lambda n: _asked(n) if n != 7 else {}, "what `inputs` asks with what `outputs` says", "Why 0?"),
    ],
    ids=["one", "two", "some rows have two", "one row has none"],
)
def test_the_texts_of_inputs_are_asked_together(
    tmp_path: Path, inputs: Callable[[int], Row], told: str, first: str
) -> None:
    lines = advised(tmp_path, SFT, [{"inputs": inputs(n), "outputs": _answered(n)} for n in range(40)])
    assert told in lines[0] and not any("columns =" in line for line in lines)
    ran(tmp_path, lines[0])
    made = passes(tmp_path, SFT)
    assert made[0] == {"prompt": [said("user", first)], "completion": [said("assistant", "So 0.")]}
    assert len(made) == sum(bool(inputs(n)) for n in range(40))


def test_which_of_several_outputs_is_the_answer_is_for_the_user_to_say(tmp_path: Path) -> None:
    outputs = [_answered(n, source="a book") if n != 3 else {"answer": None, "source": "a book"} for n in range(40)]
    lines = advised(tmp_path, SFT, [{"inputs": _asked(n), "outputs": outputs[n]} for n in range(40)])
    assert lines[0].startswith("if `answer` of `outputs` is the answer, not `source`, answer what `inputs` asks")
    ran(tmp_path, lines[0])
    assert len(passes(tmp_path, SFT)) == 39


@pytest.mark.parametrize("apart", [True, False], ids=["in a list beside them", "in each answer"])
def test_answers_without_a_text_are_not_learned_nor_compared(tmp_path: Path, apart: bool) -> None:
    """Of two that are rated alike, one has no text: texts and None cannot be sorted."""
    texts, ratings = lambda n: [f"So {n}.", None, "Bad."], [5, 5, 1]
    answers = [
        {"generations": texts(n), "ratings": ratings}
        if apart
        else {"completions": [{"response": t, "score": s} for t, s in zip(texts(n), ratings, strict=True)]}
        for n in range(40)
    ]
    rows = [{"instruction": f"Why {n}?"} | answers[n] for n in range(40)]
    for recipe, better in ((SFT, "completion"), (DPO, "chosen")):
        (tmp_path / "rows.new.jsonl").unlink(missing_ok=True)
        ran(tmp_path, next(line for line in advised(tmp_path, recipe, rows) if "rows.new.jsonl" in line))
        made = passes(tmp_path, recipe)
        assert [row[better] for row in made] == [f"So {n}." for n in range(40)]
        assert all(row.get("rejected", "Bad.") == "Bad." for row in made)


def _generated(number: int) -> Row:
    return {"generations": [[{"text": f"So {number}.", "generation_info": None}]], "llm_output": None, "run": None}


@pytest.mark.parametrize("failed", [(), (7,)], ids=["all answered", "one failed"])
def test_generations_of_a_chat_model_answer_its_messages(tmp_path: Path, failed: tuple[int, ...]) -> None:
    """LangChain logs a list of messages for each conversation that it sends at once: a run has one."""
    outputs = [None if n in failed else _generated(n) for n in range(40)]
    lines = advised(tmp_path, SFT, [{"inputs": {"messages": [_sent(n)]}, "outputs": outputs[n]} for n in range(40)])
    assert len(lines) == 1 and "columns =" not in lines[0]
    ran(tmp_path, lines[0])
    made = passes(tmp_path, SFT)
    assert made[0] == {"prompt": _sent(0), "completion": [said("assistant", "So 0.")]} and len(made) == 40 - len(failed)


@pytest.mark.parametrize("held", [lambda turns: {"messages": turns}, lambda turns: turns], ids=["objects", "lists"])
def test_a_conversation_that_comes_back_whole_is_learned_once(tmp_path: Path, held: Callable[[Any], Any]) -> None:
    """LangGraph gives all messages back: put behind what was asked, the question would come twice."""
    talks = [[*_sent(n), said("assistant", f"So {n}.")] for n in range(40)]
    rows = [
        {"run_id": str(n), "inputs": held(_sent(n)), "outputs": held(talks[n]) if n != 5 else None} for n in range(40)
    ]
    lines = advised(tmp_path, SFT, rows)
    assert len(lines) == 1 and "1 of 40" in lines[0]
    ran(tmp_path, lines[0])
    assert passes(tmp_path, SFT) == [{"messages": talk} for n, talk in enumerate(talks) if n != 5]


def test_messages_that_go_on_with_what_was_asked_are_put_behind_it(tmp_path: Path) -> None:
    answers = [[said("assistant", f"So {n}.")] for n in range(40)]
    rows = [{"inputs": {"messages": _sent(n)}, "outputs": {"messages": answers[n]}} for n in range(40)]
    (line,) = advised(tmp_path, SFT, rows)
    ran(tmp_path, line)
    assert passes(tmp_path, SFT)[3] == {"messages": [*_sent(3), *answers[3]]}
