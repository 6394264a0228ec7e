"""When the reference scores all rows before training: where it pays, and where TRL can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, good, texts, with_key

from recipec.axes import METHODS
from recipec.axes.method import PRECOMPUTE
from recipec.diagnostics.model import Label
from recipec.planner.plan import StagePlan
from recipec.rules.preference import precomputed_reference

KEY, ARGUMENT = f"alignment.{PRECOMPUTE}", "precompute_ref_log_probs="
DPO = with_key(BASES["dpo-full"], "train", {})
Keys = dict[str, Any]


def recipe(adaptation: str, strategy: str = "single", **keys: Any) -> Keys:
    gpus = 1 if strategy == "single" else 2
    found = with_key(with_key(DPO, "hardware.gpus_per_node", gpus), "train.adaptation", adaptation)
    found = with_key(found, "train.strategy", strategy)
    for key, value in keys.items():
        found = with_key(found, key.replace("__", "."), value)
    return found


def stage(folder: Path, tables: Keys) -> StagePlan:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan
    return plan.stages[-1]


@pytest.mark.parametrize(
    ("adaptation", "strategy", "world", "passes", "value"),
    [
        ("full", "single", 1, 1, True),
        ("full", "single", 1, 0.99, False),
        ("full", "ddp", 8, 1, True),
        ("full", "fsdp", 8, 1, True),
        ("full", "hsdp", 8, 1, True),
        ("full", "zero2", 8, 1, True),
        ("full", "zero3", 8, 3, False),
        ("full", "fsdp", 16, 3, False),  # on two nodes
        ("lora", "ddp", 8, 1, False),
        ("lora", "ddp", 8, 1.01, True),
        ("qlora", "zero2", 8, 2, True),
        ("lora", "fsdp", 8, 3, False),
        ("lora", "zero3", 8, 3, False),
        ("lora", "ddp", 16, 3, False),
    ],
)
def test_where_it_pays(adaptation: str, strategy: str, world: int, passes: float, value: bool) -> None:
    assert precomputed_reference(adaptation, strategy, world, 8, passes).value is value


@pytest.mark.parametrize("adaptation", ["full", "lora"])
def test_memory_and_time_are_those_of_a_step_without_a_reference(tmp_path: Path, adaptation: str) -> None:
    """Of three passes two are saved: all three steps are shorter, and one pass comes before them."""
    three = recipe(adaptation, train__epochs=3, train__micro_batch_size=4)
    once, always = (stage(tmp_path, with_key(three, KEY, asked)) for asked in (True, False))
    assert once.layout.precomputes and not always.layout.precomputes and once.steps == always.steps
    assert ("reference_model" in always.memory.terms) is (adaptation == "full")
    assert "reference_model" not in once.memory.terms and "precomputation" in once.memory.moments
    saved = always.time.seconds_per_step - once.time.seconds_per_step
    assert saved > 0 and once.reference_seconds == pytest.approx(saved * once.steps / 3)
    assert once.seconds == pytest.approx(once.steps * once.time.seconds_per_step + once.reference_seconds)
    assert always.reference_seconds == 0


def test_one_pass_takes_as_long(tmp_path: Path) -> None:
    one = recipe("full", train__epochs=1, train__micro_batch_size=4)
    once, always = (stage(tmp_path, with_key(one, KEY, asked)).seconds for asked in (True, False))
    assert once == pytest.approx(always)


def test_under_fsdp_the_copy_counts_before_training(tmp_path: Path) -> None:
    """TRL shards it as one unit, which is gathered whole."""
    tables = with_key(recipe("full", "fsdp"), "model.name", "Qwen/Qwen2.5-7B-Instruct")
    found = stage(tmp_path, with_key(tables, "hardware.gpus_per_node", 8))
    whole = 2 * 7.6e9  # in bf16
    assert found.layout.precomputes and found.memory.moments["precomputation"] > 2 * whole


def test_a_run_of_fewer_steps_than_a_pass_has_scores_as_it_goes(tmp_path: Path) -> None:
    few = stage(tmp_path, recipe("full", train__max_steps=3))
    assert few.decisions["passes"].value < 1 and not few.layout.precomputes


@pytest.mark.parametrize(
    ("adaptation", "keys", "line"),
    [
        ("full", {}, f"{ARGUMENT}True,"),
        ("lora", {"train__epochs": 3}, f"{ARGUMENT}args.max_steps == -1,"),
        ("lora", {"train__max_steps": 5000}, f"{ARGUMENT}args.max_steps == 5000,"),
        ("lora", {"train__epochs": 1}, ""),
        ("full", {KEY.replace(".", "__"): False}, ""),
    ],
)
def test_the_argument_is_written_where_it_is_on(tmp_path: Path, adaptation: str, keys: Keys, line: str) -> None:
    text = texts(good(tmp_path, recipe(adaptation, **keys)))["train.py"]
    assert (line in text) if line else ARGUMENT not in text


@pytest.mark.parametrize(
    ("adaptation", "strategy", "code"),
    [("lora", "fsdp", "E0405"), ("lora", "zero3", "E0405"), ("full", "zero3", "E0405"), ("full", "fsdp", "")],
)
def test_what_trl_cannot_do_is_refused_at_the_key(tmp_path: Path, adaptation: str, strategy: str, code: str) -> None:
    found = compiled(tmp_path, with_key(recipe(adaptation, strategy), KEY, True))
    errors = [finding for finding in found.diagnostics if finding.code.startswith("E")]
    assert [finding.code for finding in errors] == [code] * bool(code)
    for finding in errors:
        assert "true" in map(_underlined, finding.labels)


def _underlined(label: Label) -> str:
    span = label.place.span
    return label.place.text.splitlines()[span.line - 1][span.col - 1 : span.end_col - 1]


def test_several_nodes_are_warned_about(tmp_path: Path) -> None:
    tables = with_key(recipe("lora", "ddp", train__epochs=3), "hardware.nodes", 2)
    found = stage(tmp_path, tables)
    assert found.layout.mesh.world_size == 4 and not found.layout.precomputes
    asked = compiled(tmp_path, with_key(tables, KEY, True), only_plan=True)
    assert asked.plan and asked.plan.stages[0].layout.precomputes and "W0504" in codes(asked)


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.alignment])
def test_a_method_without_a_reference_has_no_such_key(tmp_path: Path, method: str) -> None:
    base = BASES["kto"] if method == "kto" else DPO
    found = compiled(tmp_path, with_key(with_key(base, "alignment.method", method), KEY, True))
    assert bool(METHODS[method].precomputes) is not ("E0401" in codes(found))


def test_the_trainers_own_keyword_names_the_key(tmp_path: Path) -> None:
    found = compiled(tmp_path, with_key(DPO, "train.arguments", {"precompute_ref_log_probs": True}))
    [finding] = [finding for finding in found.diagnostics if finding.code.startswith("E")]
    assert KEY in " ".join((finding.title, *finding.help, *(label.message for label in finding.labels)))
