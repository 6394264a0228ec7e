"""Reward functions that look for a short value anywhere in an answer (W0556), or take it for a text (W0558)."""

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


def told(folder: Path, text: str, recipe: Tables = BASES["grpo"], code: str = "W0556") -> list[Diagnostic]:
    """The warnings of this code about the recipe with a reward file of this text."""
    write_data(folder)
    (folder / "judge.py").write_text(text)
    done = compiled(folder, with_key(recipe, "alignment.reward", "judge.py:f"), only_plan=True)
    assert done.plan, [str(finding) for finding in done.diagnostics]
    return [one for one in done.diagnostics if one.code == code]


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


OF_LISTS = """
def shown(said):
    return str(said).strip()


def f(completions, sum):
    return [float({test}) for said, wanted in zip(completions, sum)]  # told
"""


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("str(wanted) in said", 'said[-1]["content"]'),
        ("len(said) < 300", 'said[-1]["content"]'),
        ("str(said).strip() == str(wanted)", 'said[-1]["content"]'),
        ("said != wanted", 'said[-1]["content"]'),
        ("str(wanted) in said[-1]", 'said[-1]["content"]'),
        ("said.count(wanted)", 'said[-1]["content"]'),
        ("shown(said) == str(wanted)", 'said[-1]["content"]'),
    ],
)
def test_a_list_that_is_taken_for_a_text_is_told(tmp_path: Path, test: str, text: str) -> None:
    source = OF_LISTS.format(test=test)
    (found,) = told(tmp_path, source, code="W0558")
    assert found.title == "`f` takes an answer for a text" and found.help == (f"take out the text: `{text}`",)
    assert found.labels[0].message.startswith(f"line 7 of judge.py: `{test.removesuffix(' < 300')}")
    assert told(tmp_path, source) == []


@pytest.mark.parametrize(
    "test",
    [
        'len(said[-1]["content"]) < 300',
        "str(wanted) in (said if isinstance(said, str) else said[-1].get('content'))",
        "isinstance(said, str) and str(wanted) in said",
        'said[0]["content"].strip() == str(wanted)',
        'all(len(turn["content"]) < 9 for turn in said)',
        "len(completions) > 1",
    ],
)
def test_what_takes_the_text_out_is_not_told(tmp_path: Path, test: str) -> None:
    assert told(tmp_path, OF_LISTS.format(test=test), code="W0558") == []


BOTH = """
def f(completions, sum):
    found = []
    for said, wanted in zip(completions, sum):
        try:
            text = said[-1]["content"]
        except TypeError:
            text = said
        if wanted == 7:
            text = text.lower()
        found.append(float(str(wanted) == text))
    return found
"""


def test_what_may_be_a_text_is_not_told(tmp_path: Path) -> None:
    assert told(tmp_path, BOTH, code="W0558") == []


def test_messages_of_a_model_that_acts_may_be_counted(tmp_path: Path) -> None:
    assert told(tmp_path, OF_LISTS.format(test="len(said) < 4"), BASES["tools"], "W0558") == []
    assert len(told(tmp_path, OF_LISTS.format(test="wanted in said"), BASES["tools"], "W0558")) == 1
