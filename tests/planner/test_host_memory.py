"""Host memory with which a training would be clearly faster is proposed, and comes true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key
from msgspec.structs import replace
from test_mending import applied

from recipec.compiler import Compilation
from recipec.planner import StagePlan, contexts
from recipec.planner.advice import host_memory
from recipec.planner.search.fit import fit
from recipec.recipe import LoadedRecipe


def distilling(base: str, model: str, gpus: int, **train: object) -> Tables:
    """A model on L40S whose layouts need more host memory than is assumed of their nodes."""
    student, teacher = (f"Qwen/Qwen2.5-{size}-Instruct" for size in model.split())
    tables = with_key(with_key(BASES[base], "model.name", student), "alignment.teacher", teacher)
    tables = with_key(tables, "hardware", {"gpu": "l40s", "gpus_per_node": gpus})
    return with_key(tables, "train", train) if train else tables


def planned(folder: Path, tables: Tables) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return plan.stages[-1]


def test_more_host_memory_is_proposed_where_training_is_then_faster(tmp_path: Path) -> None:
    tables = distilling("distill", "14B 32B", 4, adaptation="full")
    now = planned(tmp_path, tables)
    (line,) = [each for each in now.options if "host_memory_gib" in each]
    then = planned(tmp_path, applied(tables, line))
    (ratio,) = re.findall(r"if a node has it: .+ then fits, and training takes (\d\.\d+)x the time", line)
    assert then.seconds / now.seconds == pytest.approx(float(ratio), abs=0.02)
    assert not [each for each in then.options if "host_memory_gib" in each], "what is stated is believed"


def test_no_host_memory_is_proposed_where_it_is_no_faster(tmp_path: Path) -> None:
    """zero3 with CPU offload needs 263 GiB of 230, and is slower than zero3 without."""
    tables = with_key(distilling("distill", "3B 32B", 8, adaptation="full"), "hardware.gpu", "rtx-4090")
    assert not [each for each in planned(tmp_path, tables).options if "host_memory_gib" in each]


ROOMY = distilling("distill", "14B 32B", 4, adaptation="full")  # three sizes of host memory look faster
SLOWER = with_key(distilling("distill", "3B 32B", 8, adaptation="full"), "hardware.gpu", "rtx-4090")


def with_sizes(monkeypatch: pytest.MonkeyPatch, enough: int) -> list[int]:
    """The sizes that are planned, the first `enough` of which are as much as a node is assumed to have."""
    asked: list[int] = []
    stating = host_memory.stating

    def planned_with(loaded: LoadedRecipe, host_memory_gib: int) -> LoadedRecipe:
        asked.append(host_memory_gib)
        return loaded if len(asked) <= enough else stating(loaded, host_memory_gib=host_memory_gib)

    monkeypatch.setattr(host_memory, "stating", planned_with)
    return asked


def offered(found: Compilation) -> list[str]:
    assert found.plan is not None
    return [line for line in found.plan.stages[-1].options if "host_memory_gib" in line]


@pytest.mark.parametrize(("enough", "named"), [(0, 1), (1, 1), (2, 0)])
def test_the_next_size_is_planned_where_the_first_is_no_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enough: int, named: int
) -> None:
    asked = with_sizes(monkeypatch, enough)
    lines = offered(compiled(tmp_path, ROOMY, only_plan=True))
    assert len(lines) == named and all(f"`hardware.host_memory_gib = {asked[-1]}`" in line for line in lines)
    assert asked == sorted(asked) and len(asked) == min(enough + 1, 2)


def test_a_layout_that_looks_no_faster_is_not_planned_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = with_sizes(monkeypatch, 0)
    found = compiled(tmp_path, SLOWER, only_plan=True)
    [context] = contexts(found.recipe, found.facts)
    assert [other for other in fit(context, found.recipe).tried if host_memory.waits_for_host(other)]
    assert (offered(found), asked) == ([], [])


@pytest.mark.parametrize(
    ("changed", "waits"),
    [
        ({"crowds_host": True}, True),
        ({"obstacle": "needs 600 GiB of host memory"}, True),
        ({"crowds_host": True, "host_assumed": False}, False),
        ({"obstacle": "needs 600 GiB of host memory", "host_assumed": False}, False),
        ({"crowds_host": True, "over_bytes": 1}, False),
        ({"obstacle": "needs 600 GiB of host memory", "over_bytes": 1}, False),
        ({}, False),
    ],
)
def test_a_layout_waits_for_host_memory_that_is_all_it_lacks(
    tmp_path: Path, changed: dict[str, object], waits: bool
) -> None:
    found = compiled(tmp_path, BASES["lora-single"], only_plan=True)
    chosen = fit(contexts(found.recipe, found.facts)[0], found.recipe).chosen
    assert chosen is not None
    other = replace(chosen, **{"host_assumed": True, **changed})
    assert host_memory.waits_for_host(other) is waits
    assert host_memory.with_room([other])[0].crowds_host is (other.crowds_host and not waits)
