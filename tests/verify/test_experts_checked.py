"""What verify makes of the routes of tokens that a bundle logged."""

from __future__ import annotations

from recipec.verify.experts import drop_problems, load_problems


def _history(*loads: float) -> list[dict[str, float]]:
    return [{"expert_load": load} for load in loads]


def test_no_more_is_dropped_than_the_room_leaves() -> None:
    assert not drop_problems([0.0, 0.3], 0.625)
    assert drop_problems([0.4], 0.625) and drop_problems([], 0.625)
    assert drop_problems([0.001], 1.0), "there was room for every token"


def test_a_load_is_one_that_can_be() -> None:
    assert not load_problems(_history(1.0, 2.0), 2.0)
    assert load_problems(_history(0.9), 2.0) and load_problems(_history(2.1), 2.0)
