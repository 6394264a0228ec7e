"""What a search does once, however many global batches it looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.planner import planner
from recipec.planner.search import candidates
from recipec.planner.search.fit import Fit, fit


def test_no_layout_is_estimated_twice_for_the_batches_of_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adapters, which may have 128 rows in a step, are compared with full fine-tuning in 144, 288 and 512 of them."""
    recipe = with_key(BASES["lora-single"], "model.name", "meta-llama/Llama-3.2-3B-Instruct")
    recipe["data"] |= {"examples": 2_000_000, "tokens_per_example": 500, "max_length": 2_048}
    recipe |= {"hardware": {"gpu": "h100", "gpus_per_node": 8, "nodes": 18, "network_gbps": 400}, "train": {}}
    seen: set[tuple[Any, ...]] = set()
    estimate = candidates._candidate

    def noted(*given: Any) -> candidates.Candidate:
        layout, _, work, _, bounds = given
        seen.add((layout, work, bounds.global_batch, bounds.most_in_batch))
        return estimate(*given)

    def watched(*given: Any) -> Fit:
        candidates.forget()
        with monkeypatch.context() as during:
            during.setattr(candidates, "_candidate", noted)
            found = fit(*given)
        assert estimate.cache_info().misses == len(seen) < estimate.cache_info().hits + len(seen)
        return found

    monkeypatch.setattr(planner, "fit", watched)
    assert compiled(tmp_path, recipe, only_plan=True).plan
    assert len({batch for *_, batch, _ in seen}) >= 4


def test_nothing_is_kept_for_another_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is estimated may be another: tables and rates are read where it happens."""
    asked: list[int] = []
    needed = candidates.host_memory
    monkeypatch.setattr(candidates, "host_memory", lambda *given: asked.append(1) or needed(*given))
    assert compiled(tmp_path, BASES["lora-ddp"], only_check=True).plan
    first = len(asked)
    assert compiled(tmp_path, BASES["lora-ddp"], only_check=True).plan
    assert 0 < first == len(asked) - first
