"""Reward functions that look for a short value anywhere in an answer are told (W0556)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, PROMPTS, Tables, compiled, with_key, write_data

from recipec.diagnostics.model import Diagnostic

WITHIN = """
def f(completions, sum):
    return [float(str(wanted) in said[-1]["content"]) for said, wanted in zip(completions, sum)]  # told
"""
BEFORE = """
def f(completions, sum):
    texts = [said[0]["content"] for said in completions]
    return [0.0 if str(wanted).lower() not in text.lower() else 1.0 for text, wanted in zip(texts, sum)]  # told
"""
KEYWORDS = """
def f(completions, **kwargs):
    rewards = []
    for place, said in enumerate(completions):
        text = said[-1].get("content") or ""
        gold = str(kwargs["sum"][place]).strip()
        if gold in text.split("</think>")[-1]:  # told
            rewards.append(1.0)
        else:
            rewards.append(0.0)
    return rewards
"""
HELPERS = """
def text_of(said):
    return said[-1]["content"]


def right(text, gold):
    return float(gold in text)  # told


def f(completions, sum):
    return [right(text_of(said), gold=str(wanted)) for said, wanted in zip(completions, sum)]
"""
LOOP = """
import re


def f(completions, sum):
    rewards = []
    for said, wanted in zip(completions, sum):
        text = said[-1]["content"]
        rewards.append(float({test}))  # told
    return rewards
"""
CALLING = """
def g(text, sum, count):
    return g(text, sum, count) + g(sum, text, count)


def f(completions, sum):
    return [g(said, wanted, 3) for said, wanted in zip(completions, sum)]
"""


def told(folder: Path, text: str, recipe: Tables = BASES["grpo"]) -> list[Diagnostic]:
    """W0556 of the recipe with a reward file of this text."""
    write_data(folder)
    (folder / "judge.py").write_text(text)
    done = compiled(folder, with_key(recipe, "alignment.reward", "judge.py:f"), only_plan=True)
    assert done.plan, [str(finding) for finding in done.diagnostics]
    return [one for one in done.diagnostics if one.code == "W0556"]


@pytest.mark.parametrize(
    "text",
    [
        *(WITHIN, BEFORE, KEYWORDS, HELPERS),
        LOOP.format(test="text.find(str(wanted)) >= 0"),
        LOOP.format(test='f"#### {wanted}" in text'),
        LOOP.format(test='str(wanted) in text and "####" in text'),
    ],
)
def test_a_value_that_is_looked_for_anywhere_in_an_answer_is_told(tmp_path: Path, text: str) -> None:
    (found,) = told(tmp_path, text)
    (line,) = (number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# told"))
    assert found.title == "`f` looks for `sum` anywhere in an answer"
    assert found.labels[0].message == f"line {line} of judge.py tests whether the value is in the answer"
    assert found.notes[0].startswith('`sum` is "1" in prompts.jsonl:1: ')


@pytest.mark.parametrize(
    "text",
    [
        LOOP.format(test=r're.findall(r"-?\d+", text)[-1:] == [str(wanted)]'),
        LOOP.format(test=r'str(wanted) in re.findall(r"\d+", text)'),
        LOOP.format(test="str(wanted) in text.split()"),
        LOOP.format(test='f"<{wanted}>" in text'),
        LOOP.format(test='"####" in text'),
        LOOP.format(test="str(wanted) in (text or str(wanted))"),
        LOOP.format(test='"1" + "+1" * 700'),
        CALLING,
    ],
    ids=range(8),
)
def test_what_compares_an_answer_is_not_told(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, text) == []


@pytest.mark.parametrize(("cities", "warned"), [(["Paris", "London"], False), (["Paris", "Rom"], True)])
def test_long_values_may_stand_anywhere(tmp_path: Path, cities: list[str], warned: bool) -> None:
    lines = [json.dumps(row | {"city": cities}) + "\n" for row in PROMPTS]
    (tmp_path / "cities.jsonl").write_text("".join(lines))
    recipe = with_key(BASES["grpo"], "data.prompts", "cities.jsonl")
    assert bool(told(tmp_path, WITHIN.replace("sum", "city"), recipe)) is warned


ON_THE_HUB = with_key(with_key(BASES["grpo"], "data.prompts", {"hub": "org/rows"}), "data.format", "prompts")


def test_rows_that_are_not_read_may_have_short_values(tmp_path: Path) -> None:
    (found,) = told(tmp_path, WITHIN, ON_THE_HUB)
    assert found.notes[0].startswith("a short `sum`, such as 1, is part of 10")


def test_a_part_of_an_answer_within_the_answer_is_no_value_of_a_row(tmp_path: Path) -> None:
    assert told(tmp_path, LOOP.format(test="text.split()[0] in text"), ON_THE_HUB) == []
