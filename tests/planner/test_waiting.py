"""A plan that mostly waits for the network says what would shorten it, and planning it so comes to the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key

from recipec.planner import StagePlan
from recipec.planner.search.preference import MOSTLY


def on_nodes(nodes: int, network_gbps: int) -> Tables:
    """Full fine-tuning of a 32B model on nodes of eight H100."""
    recipe: Tables = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen2.5-32B")
    recipe = with_key(recipe, "train", {"adaptation": "full", "global_batch_size": 256})
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": nodes, "network_gbps": network_gbps}
    return with_key(recipe, "hardware", hardware)


def planned(folder: Path, nodes: int, network_gbps: int) -> StagePlan:
    plan = compiled(folder, on_nodes(nodes, network_gbps), only_plan=True).plan
    assert plan
    return plan.stages[0]


def test_what_is_advised_comes_true(tmp_path: Path) -> None:
    now = planned(tmp_path, 4, 400)
    assert now.needs.waiting_share > MOSTLY
    network, fewer = now.shorter_waits
    rate, faster = re.fullmatch(r"`hardware.network_gbps = (\d+)` takes (\S+)x the time", network).groups()
    nodes, slower, cheaper = re.fullmatch(r"`hardware.nodes = (\d)` takes (.+) time at (\S+)x the cost", fewer).groups()
    slower = slower.replace("the same", "1").removesuffix("x the")

    quick, small = planned(tmp_path, 4, int(rate)), planned(tmp_path, int(nodes), 400)

    assert quick.needs.waiting_share <= MOSTLY < now.needs.waiting_share
    assert quick.run_seconds == pytest.approx(now.run_seconds * float(faster), rel=0.05)
    assert small.run_seconds == pytest.approx(now.run_seconds * float(slower), rel=0.05)
    assert small.cost_usd == pytest.approx(now.cost_usd * float(cheaper), rel=0.05)


def test_what_is_advised_names_another_global_batch(tmp_path: Path) -> None:
    """72B on 48 GPUs, whose batch is left to recipec: it is raised for GPUs, and where they wait."""
    recipe = with_key(with_key(on_nodes(6, 100), "train.global_batch_size", None), "model.name", "Qwen/Qwen2.5-72B")
    recipe = with_key(recipe, "data.examples", 50_000)
    (now,) = compiled(tmp_path, recipe, only_plan=True).plan.stages
    told = 0
    for line in now.shorter_waits:
        said = re.match(r"`(\S+) = (\d+)` takes (?:(\S+)x the|the same) time", line)
        key, value, times = said.groups("1")
        (then,) = compiled(tmp_path, with_key(recipe, key, int(value)), only_plan=True).plan.stages
        batches = then.layout.global_batch, now.layout.global_batch
        assert then.run_seconds == pytest.approx(now.run_seconds * float(times), rel=0.06), line
        assert line.endswith("with a global batch of {} instead of {}".format(*batches)) is (batches[0] != batches[1])
        told += batches[0] != batches[1]
    assert (told, len(now.shorter_waits)) == (1, 2)


def test_what_is_advised_is_told_of_the_whole_run(tmp_path: Path) -> None:
    """Of a few rows most of the run is loading and evaluation, which a faster network does not shorten."""
    few = with_key(on_nodes(4, 400), "data.examples", 3_000)
    (now,) = compiled(tmp_path, few, only_plan=True).plan.stages
    rate, faster = re.fullmatch(r"`hardware.network_gbps = (\d+)` takes (\S+)x the time", now.shorter_waits[0]).groups()
    (then,) = compiled(tmp_path, with_key(few, "hardware.network_gbps", int(rate)), only_plan=True).plan.stages
    assert then.run_seconds == pytest.approx(now.run_seconds * float(faster), rel=0.05)
    assert then.seconds / now.seconds < 0.9 * then.run_seconds / now.run_seconds


@pytest.mark.parametrize(("nodes", "network_gbps"), [(1, 100), (4, 3200)])
def test_nothing_is_advised_where_little_waits(tmp_path: Path, nodes: int, network_gbps: int) -> None:
    stage = planned(tmp_path, nodes, network_gbps)
    assert (stage.shorter_waits, stage.needs.waiting_share <= MOSTLY) == ((), True)


def test_the_bundles_readme_gives_the_advice(tmp_path: Path) -> None:
    readme = texts(good(tmp_path, on_nodes(4, 100)))["README.md"]
    advised = planned(tmp_path, 4, 100).shorter_waits
    assert advised
    for advice in advised:
        assert advice in readme.replace("\\", "")
