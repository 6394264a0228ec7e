"""How often evaluate.py passes over the weights, which are copied each time where they wait in host memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from recipec.estimate.whole_run import Rows
from recipec.planner.advice import evaluations


@pytest.mark.parametrize(("tokens_each", "passes"), [(100, 60), (256, 150), (300, 300), (90_000, 300)])
def test_a_row_that_is_longer_than_a_batch_is_one_pass(
    monkeypatch: pytest.MonkeyPatch, tokens_each: float, passes: int
) -> None:
    monkeypatch.setattr(evaluations, "_step_share", lambda *_: 0.0)
    monkeypatch.setattr(evaluations, "_computing", lambda _: 0.0)
    chosen = SimpleNamespace(layout=SimpleNamespace(mesh=SimpleNamespace(world_size=8)))
    held = SimpleNamespace(gpus=8, tokens_at_once=512, trained=SimpleNamespace(whole=False))
    rows = Rows(0, tokens_each, 0, 300, 0, False)
    assert evaluations._scored_by_script(None, None, chosen, held, rows).passes == passes
