"""The rows that are there against the rows that the plan counts: what a run on other data cannot show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emitted import RECIPES, built
from msgspec.structs import replace

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify import real_rows
from recipec.verify.bundle import Bundle, BundleStage, read_bundle
from recipec.verify.real_rows import NotCounted, compare, count_rows, own_files, steps_of
from recipec.verify.report import VerifyReport
from recipec.verify.rows import BundleData, SourceData, StageData

CONVERSATIONS, ANSWERS = 60, 5
pytestmark = pytest.mark.usefixtures("forked")
RECIPE = """\
[recipe]
name = "talks"
[goal]
task = "instruct"
[model]
name = "tiiuae/Falcon3-1B-Instruct"  # its template does not say which tokens are the assistant's
[data]
train = "talks.jsonl"
[hardware]
gpu = "h100"
"""


def talk(number: int) -> dict[str, Any]:
    """A conversation of several questions and answers."""
    turns = []
    for turn in range(ANSWERS):
        turns.append({"role": "user", "content": f"question {turn} of conversation {number}"})
        turns.append({"role": "assistant", "content": f"answer {turn} to conversation {number}"})
    return {"messages": turns}


def talks(folder: Path, rows: list[dict[str, Any]]) -> Bundle:
    """The bundle of a recipe with these rows."""
    (folder / "talks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (folder / "talks.toml").write_text(RECIPE, encoding="utf-8")
    done = compile_recipe(folder / "talks.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    return read_bundle(folder / "out")


def planned(bundle: Bundle, **decisions: Any) -> Bundle:
    """The same bundle with another plan."""
    stage = replace(bundle.last, decisions={**bundle.last.decisions, **decisions})
    return replace(bundle, stages=(stage,))


def counted(bundle: Bundle, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerifyReport:
    monkeypatch.setenv("DATA_ROOT", str(data_root))
    report = VerifyReport("run")
    count_rows(bundle, tmp_path / "real-rows", report)
    return report


def test_rows_that_are_as_many_as_planned_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = read_bundle(built("sft-lora"))
    report = counted(bundle, RECIPES, tmp_path, monkeypatch)
    (check,) = report.checks
    assert check.ok, check.detail
    assert "38 rows to train on, the plan counts 38" in check.detail
    assert not report.not_run
    compare(planned(bundle, examples=30).last, {"train": {"read": 48, "counted": 38}}, False, report)
    assert not report.checks[-1].ok, "a quarter more than planned"


def test_conversations_that_become_a_row_for_each_answer_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparation makes a row of every answer; a plan that counts conversations is wrong by their length."""
    bundle = talks(tmp_path, [talk(number) for number in range(CONVERSATIONS)])
    report = counted(planned(bundle, examples=CONVERSATIONS, total_steps=6), tmp_path, tmp_path, monkeypatch)
    (check,) = report.checks
    assert not check.ok
    assert int(check.detail.split()[0]) > 0.7 * CONVERSATIONS * ANSWERS
    assert f"rows to train on, the plan counts {0.8 * CONVERSATIONS:.0f}" in check.detail
    assert "optimizer steps, the plan counts 6" in check.detail


def test_a_row_that_preparation_cannot_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = talks(tmp_path, [talk(number) for number in range(CONVERSATIONS)])
    with (tmp_path / "talks.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"messages": "none"}\n')
    report = counted(bundle, tmp_path, tmp_path, monkeypatch)
    assert [check.name for check in report.checks if not check.ok] == [
        "prepare_data.py prepares the rows that are there"
    ]


def test_a_sample_of_the_stated_data_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = counted(read_bundle(built("pretrain")), RECIPES, tmp_path, monkeypatch)
    assert not report.checks
    assert "48 rows and the recipe states 20,000" in report.not_run[0].reason


def test_absent_rows_are_no_pass_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = counted(read_bundle(built("sft-lora")), tmp_path, tmp_path, monkeypatch)
    assert not report.checks
    assert "has no data/instructions.jsonl; set DATA_ROOT" in report.not_run[0].reason


def reading(*sources: dict[str, Any]) -> BundleData:
    given = (SourceData("s", source, "text", {"text": "text"}, "strings", 256) for source in sources)
    return BundleData((StageData("s", tuple(given), 1, 0),), None)


@pytest.mark.parametrize("named", ["a.jsonl", "*.jsonl", "[a].jsonl", Path.as_posix])
def test_files_are_found_as_the_bundle_finds_them(tmp_path: Path, named: str | Callable[[Path], str]) -> None:
    file = tmp_path / "a.jsonl"
    file.touch()
    pattern = named if isinstance(named, str) else named(file)
    assert own_files(reading({"path": pattern}, {"path": pattern}), tmp_path) == [file]


def test_data_that_are_elsewhere_or_too_large_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(NotCounted, match="org/rows are on the Hub"):
        own_files(reading({"path": "a.jsonl"}, {"hub": "org/rows"}), tmp_path)
    monkeypatch.setattr(real_rows, "MOST_BYTES", 1)
    with pytest.raises(NotCounted, match="MiB of data"):
        own_files(reading({"path": "a.jsonl"}), tmp_path)


TRAIN = {"counted": 100, "rows": 90, "tokens": 10_000}


def stage(packing: bool, max_steps: int = -1, overflow: str = "drop") -> BundleStage:
    last = read_bundle(built("sft-lora")).last
    facts = {**last.decisions, "max_length": 100, "epochs": 3, "max_steps": max_steps, "overflow": overflow}
    return replace(last, decisions=facts, choice={**last.choice, "packing": packing, "global_batch_size": 10})


@pytest.mark.parametrize(
    ("stage", "exact", "steps"),
    [
        (stage(packing=False), True, 27),
        (stage(packing=False), False, 30),  # rows that are too long are not known
        (stage(packing=True), True, 30),
        (stage(packing=True), False, None),
        (stage(packing=False, overflow="split"), False, None),  # pieces of texts are counted in its own tokens
        (stage(packing=False, overflow="split"), True, 27),
        (stage(packing=False, max_steps=5), True, None),
    ],
)
def test_steps_follow_from_what_was_counted(stage: BundleStage, exact: bool, steps: int | None) -> None:
    assert steps_of(stage, TRAIN, exact) == steps
