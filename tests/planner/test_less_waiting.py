"""Nodes that mostly wait for the network are warned about, and what is named against it comes true."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_mending import applied

from recipec.planner.plan import Plan
from recipec.planner.search.preference import MOSTLY
from recipec.units import duration, usd

ROWS = {"train": "chat.jsonl", "examples": 100_000, "tokens_per_example": 1000}
BASE = with_key(with_key(BASES["lora-single"], "data", ROWS), "model.name", "meta-llama/Llama-3.1-70B")


def recipe(network_gbps: int | None = 50, **train: object) -> Tables:
    """Full fine-tuning on four nodes of eight H100."""
    hardware: Tables = {"gpu": "h100", "gpus_per_node": 8, "nodes": 4}
    hardware |= {"network_gbps": network_gbps} if network_gbps else {}
    return with_key(with_key(BASE, "hardware", hardware), "train", {"adaptation": "full", **train})


def told(folder: Path, tables: Tables) -> list[tuple[str, str, tuple[str, ...]]]:
    found = compiled(folder, tables, only_plan=True).diagnostics
    return [(each.title, each.labels[0].message, each.help) for each in found if each.code == "W0519"]


def planned(folder: Path, tables: Tables) -> Plan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan


SMALL_BATCH = recipe(global_batch_size=64)
WAYS = [
    'set `train.adaptation = "lora"`: LoRA',
    "set `train.global_batch_size = 512`: full fine-tuning",
]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_named_comes_true(tmp_path: Path, way: str) -> None:
    ((title, label, help),) = told(tmp_path, SMALL_BATCH)
    now = planned(tmp_path, SMALL_BATCH)
    assert title == "the nodes mostly wait for the network between them"
    assert label == f"{now.stages[0].needs.waiting_share:.0%} of a step of stage sft is exposed communication"
    (line,) = [each for each in help if each.startswith(way)]
    then = planned(tmp_path, applied(SMALL_BATCH, line))
    assert now.cost_usd is not None and then.cost_usd is not None
    assert f"the whole run takes {duration(then.seconds)} instead of {duration(now.seconds)}" in line
    assert f"{usd(then.cost_usd)} instead of {usd(now.cost_usd)}" in line


def test_the_larger_batch_is_one_that_the_rule_accepts(tmp_path: Path) -> None:
    batch = planned(tmp_path, SMALL_BATCH).stages[0].decisions["global_batch_size"]
    assert batch.accepts is not None and batch.accepts[1] == 512
    ((_, _, help),) = told(tmp_path, recipe())
    assert not [line for line in help if "global_batch_size" in line], "recipec has raised it already"


def test_the_batch_is_raised_as_long_as_that_pays(tmp_path: Path) -> None:
    """64 sequences become 128 and then 256; 512 would not be clearly faster."""
    usual, raised, twice = (planned(tmp_path, recipe(global_batch_size=size)).seconds for size in (64, 256, 512))
    assert planned(tmp_path, recipe()).stages[0].value("global_batch_size") == 256
    assert usual > 1.25**2 * raised and raised < 1.25 * twice


def test_a_network_that_is_fast_enough_is_not_warned_about(tmp_path: Path) -> None:
    assert planned(tmp_path, recipe(3200)).stages[0].needs.waiting_share < MOSTLY
    assert not told(tmp_path, recipe(3200))


def test_a_network_that_is_assumed_is_warned_about_at_the_nodes(tmp_path: Path) -> None:
    tables = with_key(recipe(None, strategy="fsdp"), "hardware.gpu", "rtx-4090")
    tables = with_key(with_key(tables, "model.name", "Qwen/Qwen3-8B"), "data.max_length", 1024)
    share = planned(tmp_path, tables).stages[0].needs.waiting_share
    assert share > MOSTLY
    (finding,) = [e for e in compiled(tmp_path, tables, only_plan=True).diagnostics if e.code == "W0519"]
    place = finding.labels[0].place
    line = place.text.splitlines()[place.span.line - 1]
    assert line[place.span.col - 1 :].startswith(("4", '"nodes"'))
