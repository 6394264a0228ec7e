"""README.md says where the time of a run goes, and what no GPU need wait for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, good, texts, with_key

from recipec.units import duration

CLUSTER = {"gpu": "a100-80gb", "gpus_per_node": 8, "nodes": 2, "network_gbps": 800}
LARGE = with_key(with_key(BASES["pretrain"], "hardware", CLUSTER), "data.examples", 20_000_000)
ON_THE_HUB = with_key(with_key(LARGE, "data.train", {"hub": "org/rows"}), "data.format", "text")
PINNED = with_key(ON_THE_HUB, "data.train", {"hub": "org/rows", "revision": "a" * 40})


@pytest.mark.parametrize("base", ["grpo", "sft-dpo"])
def test_the_parts_of_a_run_are_those_of_the_plan(tmp_path: Path, base: str) -> None:
    """Of 9 hours of GRPO, 8 may be generation."""
    done = good(tmp_path, BASES[base])
    readme = texts(done)["README.md"]
    assert done.plan
    for stage in done.plan.stages:
        run = f"stage {stage.stage.name}" if base == "sft-dpo" else "the whole run"
        assert f"about {duration(round(stage.run_seconds))} for {run}" in readme
        for part in stage.parts:
            assert f"| {part.name} | {duration(part.seconds)} | " in readme
    assert ("| generation | " in readme) is (base == "grpo")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (LARGE, r"in which 16 GPUs wait\. .*`python prepare_data\.py`.* does not prepare them again\."),
        (
            ON_THE_HUB,
            r"packages and data\. .* does not prepare them again\. It does where the data set .* a new commit",
        ),
        (PINNED, r"packages and data\. .* does not prepare them again\.$"),
        (with_key(LARGE, "launch.with", "none"), ""),
        (BASES["pretrain"], ""),
    ],
)
def test_a_long_preparation_may_come_before_the_gpus(tmp_path: Path, recipe: Tables, said: str) -> None:
    bundle = texts(good(tmp_path, recipe))
    found = "".join(re.findall(r"Data preparation takes about .*", bundle["README.md"]))
    assert bool(found) is bool(said)
    assert re.search(said, found)
