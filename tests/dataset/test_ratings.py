"""Which columns may be ratings: a handful of words, most of which say good or bad."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.dataset.contents import rated_columns


@pytest.mark.parametrize(
    ("values", "rated"),
    [
        (["👍", "👎", "👍", None, "👍", "👎", "unrated", "👎"], True),
        (["good", "bad", "good", "n/a"], True),
        (["Yes", "Hold the red button.", "Yes", "Release it after a second.", "Yes", "It is blue."], False),
        (["Yes", "Hold it.", "Press it.", "Turn it.", "Yes"], False),
        (["Yes", "one", "No", "two", "Yes", "three", "No", "four", "Yes"], False),
        ([["Yes"], "Yes"], False),
        ([None, None], False),
    ],
)
def test_a_column_of_answers_is_no_rating(values: list[Any], rated: bool) -> None:
    rows = [{"reply": value} for value in values]
    assert rated_columns(rows, ["reply"]) == ["reply"] * rated


def test_answers_that_say_yes_are_proposed_as_answers(tmp_path: Path) -> None:
    replies = [f"Hold the red button for {n} seconds." if n % 2 else "Yes" for n in range(12)]
    rows = [json.dumps({"user_query": f"Does pump {n} run?", "bot_reply": reply}) for n, reply in enumerate(replies)]
    (tmp_path / "talks.jsonl").write_text("\n".join(rows))
    found = compiled(tmp_path, with_key(BASES["lora-single"], "data.train", "talks.jsonl")).diagnostics
    assert any('completion = "bot_reply"' in str(each) for each in found if each.code == "E0305"), found


def rated(values: list[Any], name: str) -> list[dict[str, Any]]:
    return [{"prompt": f"Why {n}?", "completion": f"So {n}.", name: values[n % len(values)]} for n in range(60)]


def found(folder: Path, recipe: dict[str, Any], rows: list[dict[str, Any]]) -> Any:
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return compiled(folder, recipe, only_plan=True)


TRAIN = with_key(BASES["lora-single"], "data.train", "rated.jsonl")


@pytest.mark.parametrize(
    ("values", "name"), [(["up", "down"], "thumbs"), (["good", "bad", "good"], "verdict"), ([0, 1], "rating")]
)
def test_ratings_beside_answers_are_told_with_the_lines_that_learn_from_them(
    tmp_path: Path, values: list[Any], name: str
) -> None:
    rows = rated(values, name)
    (told,) = [one for one in found(tmp_path, TRAIN, rows).diagnostics if one.code == "W0516"]
    lines = (
        '`task = "align"` under [goal], `method = "kto"` under [alignment], and under [data] the rows as `preferences`'
    )
    assert told.help[0] == f'to learn from the ratings in `{name}`: {lines}, with `columns = {{ label = "{name}" }}`'
    data = {"preferences": "rated.jsonl", "columns": {"label": name}, "examples": 5_000, "tokens_per_example": 400}
    align = TRAIN | {"goal": {"task": "align"}, "data": data, "alignment": {"method": "kto"}}
    plan = found(tmp_path, align, rows).plan
    assert plan is not None and plan.stages[-1].decisions["true_share"].value is not None


@pytest.mark.parametrize(("values", "name"), [([0, 1], "is_test"), (["yes", "no"], "urgent"), (["up"], "thumbs")])
def test_flags_of_another_kind_are_no_ratings(tmp_path: Path, values: list[Any], name: str) -> None:
    (told,) = [one for one in found(tmp_path, TRAIN, rated(values, name)).diagnostics if one.code == "W0516"]
    assert not any("kto" in line for line in told.help)
