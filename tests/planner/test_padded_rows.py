"""What is equally long in every sequence is not padded: the rows are, to the longest of those that meet by chance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, with_key

from recipec.estimate.padding import padded_tokens
from recipec.planner.search import candidates
from recipec.rules.loader import by_chance
from recipec.rules.reservations import assumed

WORDS = (40, 60, 80, 90, 100, 120, 150, 400)  # of every eight prompts: the longest are far above the mean


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, int]]:
    """Micro batches that are timed, with the tokens of a sequence in each."""
    found: set[tuple[int, int]] = set()
    step_time = candidates.step_time

    def noting(shape: Any, layout: Any, work: Any, *more: Any) -> Any:
        found.add((layout.micro_batch, work.seq_len_tokens))
        return step_time(shape, layout, work, *more)

    monkeypatch.setattr(candidates, "step_time", noting)
    return found


def lines(folder: Path, name: str, **fields: Any) -> str:
    texts = ("word " * words + str(number) for number, words in enumerate(WORDS * 40))
    (folder / name).write_text("\n".join(json.dumps({"prompt": text} | fields) for text in texts))
    return name


@pytest.mark.parametrize("tokens", [64, 512, 4_096])
def test_answers_are_added_to_padded_prompts(tmp_path: Path, timed: set[tuple[int, int]], tokens: int) -> None:
    """An answer that is longer than the longest prompt does not make all prompts equally long."""
    data = {"train": lines(tmp_path, "own.jsonl", sum=1), "max_length": 1024}
    recipe = with_key(with_key(BASES["grpo"], "data", data), "alignment.generation.max_new_tokens", tokens)
    value = good(tmp_path, recipe).plan.stages[0].value
    usual, longest = value("tokens_per_example"), value("tokens_p99")
    assert longest > 2 * usual and len({size for size, _ in timed}) > 1
    for size, length in timed:
        assert length == round(padded_tokens(usual, longest, size)) + tokens


@pytest.mark.parametrize("known", [True, False])
def test_padding_that_is_not_counted_is_told(tmp_path: Path, known: bool) -> None:
    """Rows at hand say how far lengths differ; short ones in a sample say nothing of those of the stated mean."""
    words = WORDS if known else (3,)
    pairs = ({"prompt": "word " * many, "chosen": f"yes {at}", "rejected": "no"} for at in range(40) for many in words)
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    stated = {} if known else {"examples": 20_000, "tokens_per_example": 130}
    data = {"preferences": "own.jsonl", "max_length": 1024} | stated
    plan = json.loads(good(tmp_path, with_key(BASES["dpo-full"], "data", data)).plan_json)["stages"][0]
    told = [line for line in assumed(plan) if "padding" in line]
    assert plan["choice"]["micro_batch_size"] > 1 and bool(told) != known


def test_rows_of_like_length_do_not_meet_by_chance() -> None:
    drawn = {"packing": False, "sampling": "random"}
    assert by_chance(drawn)
    assert not any(by_chance(drawn | other) for other in ({"packing": True}, {"sampling": "similar-lengths"}))
    assert not by_chance(drawn | {"curriculum_by": "length"})
