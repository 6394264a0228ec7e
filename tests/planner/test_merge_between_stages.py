"""The launch script merges an adapter that a later stage goes on from, which takes host memory of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key

from recipec.cli.plan import plan_text
from recipec.estimate.storage import PROCESS_BYTES

QWEN_7B_BYTES = 2 * 7_615_616_512
MERGE_BYTES = PROCESS_BYTES + QWEN_7B_BYTES  # 17.2 GiB; to train on a base in 4 bits takes 3 GiB


def recipe(base: str = "sft-dpo", **hardware: object) -> Tables:
    tables = with_key(BASES[base], "train", {"adaptation": "qlora"})
    return with_key(tables, "hardware", {"gpu": "a100-80gb", "gpus_per_node": 1} | hardware)


def test_the_merge_between_stages_counts_where_it_takes_most(tmp_path: Path) -> None:
    found = good(tmp_path, recipe(host_memory_gib=20))
    assert found.plan is not None
    first, last = (stage.needs.host for stage in found.plan.stages)
    assert (first.needed_bytes, last.needed_bytes) == (MERGE_BYTES, PROCESS_BYTES), "the last is merged by hand"
    moment = "merge_adapter.py after training, which takes more than the training: 1 process x 3 GiB, 14.2 GiB"
    assert f"of the memory: {moment} of weights" in plan_text(json.loads(found.plan_json))
    readme = " ".join(texts(found)["README.md"].split())
    assert f"Host memory: 17 GiB on every node (predicted: {moment} of weights)" in readme
    assert "To merge the adapter: 17.2 GiB of host memory, and 14.2 GiB more disk" in readme


def test_a_node_that_cannot_merge_between_stages_is_refused(tmp_path: Path) -> None:
    (refused,) = compiled(tmp_path, recipe(host_memory_gib=16), only_plan=True).diagnostics[-1:]
    assert refused.code == "E0402" and refused.title.startswith("stage sft ")
    assert any("needs 17 GiB of host memory per node to merge the adapter" in note for note in refused.notes)
    one_stage = with_key(recipe("dpo-full", host_memory_gib=16), "model.name", "Qwen/Qwen2.5-7B-Instruct")
    alone = compiled(tmp_path, one_stage, only_plan=True)
    assert alone.plan is not None, "after the last stage nothing is merged by itself"


def test_a_node_that_is_assumed_to_have_too_little_to_merge_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipec.planner.search.bounds.ASSUMED_HOST_SHARE", 0.1)
    found = compiled(tmp_path, recipe(), only_plan=True)
    (warning,) = [each for each in found.diagnostics if each.code == "W0505"]
    assert warning.help == ("take a node with more memory",), "fewer GPUs take as much"
    assert found.plan is not None and found.plan.stages[0].crowds_host and not found.plan.stages[1].crowds_host
