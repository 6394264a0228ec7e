"""What GPUs wait for while train.py tokenizes: its cost is said, and with several nodes a way to make it on one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key

from recipec.cli.plan import plan_text
from recipec.planner.document import plan_document
from recipec.units import duration, usd


def pretraining(examples: int, nodes: int = 4, **more: Any) -> Tables:
    """Documents of a thousand tokens on nodes of 8 H100."""
    tables = with_key(with_key(BASES["pretrain"], "data.examples", examples), "data.tokens_per_example", 1000)
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": nodes}
    hardware |= {"network_gbps": 3200} if nodes > 1 else {}
    return with_key(tables, "hardware", hardware) | more


def named(folder: Path, tables: Tables) -> list[str]:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return [line for line in plan.stages[0].options if line.startswith("tokenize the rows on one node")]


def test_the_part_says_who_waits_and_for_how_much(tmp_path: Path) -> None:
    plan = good(tmp_path, pretraining(20_000_000, nodes=1)).plan
    assert plan is not None
    (stage,) = plan.stages
    (part,) = (each for each in stage.parts if each.name == "tokenization")
    cost = usd(8 * part.seconds / 3600 * stage.decisions["gpu_price"].value)
    assert part.because.endswith(f", while 8 GPUs wait ({cost})")
    assert part.because in plan_text(plan_document(plan))
    assert part.because in texts(good(tmp_path, pretraining(20_000_000, nodes=1)))["README.md"]


@pytest.mark.parametrize(("examples", "nodes", "proposed"), [(20_000_000, 4, 1), (20_000_000, 1, 0), (20_000, 4, 0)])
def test_one_node_is_proposed_where_many_would_wait(tmp_path: Path, examples: int, nodes: int, proposed: int) -> None:
    tables = pretraining(examples, nodes)
    lines, found = named(tmp_path, tables), good(tmp_path, tables)
    assert len(lines) == proposed
    assert ("To tokenize before you rent all nodes" in texts(found)["README.md"]) is bool(proposed)
    assert found.plan is not None
    waited = sum(stage.tokenizing_seconds for stage in found.plan.stages)
    for line in lines:
        assert f"32 GPUs wait for train.py, {duration(waited)} and $" in line


@pytest.mark.parametrize(
    ("base", "repeats"), [("dpo-full", "drops pairs whose prompt"), ("kto", "drops rows whose prompt")]
)
def test_what_each_rank_does_anew_is_said(tmp_path: Path, base: str, repeats: str) -> None:
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 4, "network_gbps": 3200}
    tables = with_key(with_key(BASES[base], "data.examples", 20_000_000), "data.tokens_per_example", 1000)
    readme = texts(good(tmp_path, with_key(tables, "hardware", hardware)))["README.md"]
    assert f"Each rank still {repeats}" in readme
    assert "Each rank still" not in texts(good(tmp_path, pretraining(20_000_000)))["README.md"]


def test_no_launch_script_no_proposal(tmp_path: Path) -> None:
    assert not named(tmp_path, pretraining(20_000_000, launch={"with": "none"}))


@pytest.mark.parametrize(("strategy", "shards"), [("fsdp", ""), ("hsdp", "SHARDS=8 ")])
def test_the_command_states_every_number_that_the_script_would_refuse(
    tmp_path: Path, strategy: str, shards: str
) -> None:
    files = texts(good(tmp_path, with_key(pretraining(20_000_000), "train.strategy", strategy)))
    (command,) = re.findall(r"run `([^`]*launch/nodes.sh --max-steps 1)`", files["README.md"])
    assert command.startswith(f"OTHER_RANKS=1 NNODES=1 {shards}NODE_RANK=0")
    known = set(re.findall(r"planned ([A-Z_]+) \d", files["launch/nodes.sh"])) - {"NPROC_PER_NODE"}
    assert known == set(re.findall(r"(NNODES|SHARDS)=", command))
