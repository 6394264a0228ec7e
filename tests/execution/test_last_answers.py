"""`loss_on = "last-answer"` where rows say of their answers whether they are learned: the last one, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import compiled
from test_carried import asked, learned, recipe, said, without_thought
from test_prepare_data import write
from test_rows_counted import report_of

pytestmark = pytest.mark.executes

AGAIN = {"role": "user", "content": "And?"}
DATA = {"loss_on": "last-answer", "test_fraction": 0.1, "eval_fraction": 0.1}


def talk(number: int, weight: int) -> dict[str, Any]:
    """The first answer has another weight than the last, which may be 0."""
    return asked(
        f"Why {number}?", said(f"one {number}", weight=1 - weight), AGAIN, said(f"two {number}", weight=weight)
    )


def test_a_last_answer_that_is_not_learned_gives_way_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [talk(n, int(n % 3 > 0)) for n in range(60)]
    found = learned(tmp_path, recipe(**DATA), rows, monkeypatch)
    assert found == sorted([without_thought(f"two {n}")] for n in range(60) if n % 3)
    counted = report_of(tmp_path, "sft")
    assert [counted[name] for name in ("read", "unlearned", "answers", "messages_behind_answers")] == [60, 20, 40, 0]


def test_the_plan_counts_the_last_answers_that_are_learned(tmp_path: Path) -> None:
    """One repeats another one exactly, and is learned once."""
    rows = [talk(n, int(n % 3 > 0)) for n in range(60)]
    write(tmp_path / "chat.jsonl", [*rows, *[rows[1]] * 10])
    found = compiled(tmp_path, recipe(**DATA))
    decided = found.plan.stages[0].decisions
    assert decided["unlearned_answers"].value == "20 of 70 sampled last answers are not learned, as their `weight` says"
    assert decided["kept_answers"].value == 40
    assert not [one for one in found.diagnostics if one.code == "W0532"]


@pytest.mark.parametrize("loss_on", ["answers", "last-answer"])
def test_rows_of_which_nothing_is_learned_are_refused(tmp_path: Path, loss_on: str) -> None:
    rows = [talk(n, 0) for n in range(20)]
    if loss_on == "answers":
        rows = [asked(f"Why {n}?", said("So.", weight=0)) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    (found,) = [one for one in compiled(tmp_path, recipe(loss_on=loss_on)).diagnostics if one.code == "E0304"]
    assert found.title == "nothing of data.train is learned"
    assert ("remove `loss_on`" in found.help[0]) is (loss_on == "last-answer")
