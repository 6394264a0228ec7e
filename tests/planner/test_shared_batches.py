"""Smaller batches of answers that are proposed are such as all GPUs share, where they can."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_mending import applied

from recipec.planner import contexts
from recipec.planner.advice.changes import smaller_batch


def answers(nodes: int, **train: object) -> Tables:
    """Answers of 4,096 tokens of a large model, beside whose weights vLLM's copy finds no room."""
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": nodes, "network_gbps": 3200}
    tables = with_key(with_key(BASES["grpo"], "model.name", "Qwen/Qwen3-32B"), "hardware", hardware)
    tables = with_key(with_key(tables, "data.examples", 12_000), "train", {"adaptation": "full", **train})
    generation = {"engine": "vllm", "per_prompt": 8, "max_new_tokens": 4096}
    return with_key(tables, "alignment.generation", generation)


def test_a_smaller_batch_that_all_gpus_share_is_a_way_out(tmp_path: Path) -> None:
    (problem,) = compiled(tmp_path, answers(3), only_plan=True).diagnostics
    assert problem.code == "E0402"
    (line,) = [line for line in problem.help if "`train.global_batch_size = " in line]
    then = compiled(tmp_path, applied(answers(3), line), only_plan=True).plan
    assert then is not None and (then.stages[0].layout.gpus, then.stages[0].layout.global_batch) == (24, 48)


@pytest.mark.parametrize(("nodes", "sizes"), [(1, [64, 32, 16]), (3, [48, 24, 64, 32, 16])])
def test_batches_that_all_gpus_share_are_tried_first(tmp_path: Path, nodes: int, sizes: list[int]) -> None:
    found = compiled(tmp_path, answers(nodes), only_plan=True)
    (context,) = contexts(found.recipe, found.facts)
    assert [dict(change.sets)["train.global_batch_size"] for change, _ in smaller_batch(context)] == sizes
