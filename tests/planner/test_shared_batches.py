"""Batches of answers that all GPUs share are proposed in place of too large ones, and of such as cut a group."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, with_key
from test_mending import applied

from recipec.planner import contexts
from recipec.planner.advice.changes import smaller_batch


def answers(nodes: int, **train: object) -> Tables:
    """Answers of 4,096 tokens of a large model, beside whose weights a whole copy of vLLM's finds no room."""
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": nodes, "network_gbps": 3200}
    tables = with_key(with_key(BASES["grpo"], "model.name", "Qwen/Qwen3-32B"), "hardware", hardware)
    tables = with_key(with_key(tables, "data.examples", 12_000), "train", {"adaptation": "full", **train})
    generation = {"engine": "vllm", "engine_tensor_parallel": 1, "per_prompt": 8, "max_new_tokens": 4096}
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


def test_no_batch_is_told_to_cut_groups_where_none_is_stated(tmp_path: Path) -> None:
    """The batch that the rule decides is raised for the GPUs, before it is said that nothing fits."""
    assert codes(compiled(tmp_path, answers(3), only_plan=True)) == ["E0402"]


def test_a_batch_that_cuts_groups_is_mended_by_a_number(tmp_path: Path) -> None:
    tables = with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": 2})
    tables = with_key(with_key(tables, "train", {"global_batch_size": 100}), "alignment.generation.per_prompt", 8)
    (problem,) = [each for each in compiled(tmp_path, tables, only_plan=True).diagnostics if each.code == "E0405"]
    assert problem.help[0].startswith("set `train.global_batch_size = 96`: ")
    assert compiled(tmp_path, applied(tables, problem.help[0]), only_plan=True).plan


def test_a_batch_that_cuts_groups_gets_a_number_where_nothing_fits_either(tmp_path: Path) -> None:
    cut = answers(3, global_batch_size=100)
    (problem,) = [each for each in compiled(tmp_path, cut, only_plan=True).diagnostics if each.code == "E0405"]
    assert problem.help == ("set `train.global_batch_size = 96`: all GPUs share so many answers, in whole groups",)
