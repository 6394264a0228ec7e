"""Where only the last step would write a checkpoint, none is written, and nothing is said or emitted of a choice."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, codes, compiled, good, texts, with_key

from recipec.bundle.build import write_bundle
from recipec.verify.best import check_best
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.sizes import learning_values, resuming_patches
from recipec.verify.static.planned import argument_problems

SEVERAL = with_key(with_key(BASES["text"], "train", {"epochs": 3, "adaptation": "full"}), "hardware.gpu", "h200")
ONE = with_key(SEVERAL, "data.examples", 60)  # writing a checkpoint takes longer than the training


@pytest.mark.parametrize(("recipe", "one"), [(ONE, True), (SEVERAL, False)])
def test_what_stops_and_chooses_needs_a_checkpoint(tmp_path: Path, recipe: Tables, one: bool) -> None:
    bundle = texts(good(tmp_path, recipe))
    assert ("StopWithoutProgress" in bundle["train.py"] + bundle["preflight.py"]) != one
    assert ("evaluation during training, which chooses the checkpoint" in bundle["README.md"]) != one
    assert ("of those with a checkpoint, the lowest is loaded at the end" in bundle["README.md"]) != one
    assert ("chooses nothing, since no checkpoint is written" in bundle["README.md"]) == one
    assert ("| early_stopping_patience | 0 | no checkpoint is written" in bundle["README.md"]) == one
    assert ("A run that was stopped begins anew when it is started again" in bundle["README.md"]) == one


def test_of_several_stages_one_that_begins_anew_is_named(tmp_path: Path) -> None:
    rows = {"train": ("chat.jsonl", 200_000), "preferences": ("pairs.jsonl", 60)}
    sources = {key: [{"path": path, "examples": examples}] for key, (path, examples) in rows.items()}
    data = sources | {"tokens_per_example": 400, "max_length": 1024}
    two = with_key(
        with_key(BASES["sft-dpo"], "data", data), "hardware", {"gpu": "h100", "gpus_per_node": 8, "nodes": 2}
    )
    readme = texts(good(tmp_path, two))["README.md"]
    assert "(as in sft, where none is planned)" in readme
    assert "`outputs/failed-node.txt` names it. Then start all nodes again." in readme and "they go on" not in readme


@pytest.mark.parametrize(("recipe", "one"), [(ONE, True), (SEVERAL, False)])
def test_a_trainer_writes_no_checkpoint_and_loads_none(tmp_path: Path, recipe: Tables, one: bool) -> None:
    """What its log would be read from is written beside the result."""
    train = texts(good(tmp_path, recipe))["train.py"]
    assert ('save_strategy="no"' in train) == one == ("    trainer.save_state()" in train)
    for name in ("save_steps", "save_total_limit", "load_best_model_at_end=True"):
        assert (name in train) != one, name


@pytest.mark.parametrize(("recipe", "one"), [(ONE, True), (SEVERAL, False)])
def test_a_loop_of_its_own_writes_no_checkpoint(tmp_path: Path, recipe: Tables, one: bool) -> None:
    train = texts(good(tmp_path, with_key(recipe, "train.loop", "torch")))["train.py"]
    assert ("save_steps=0," in train) == one == ("self.progress.write(self.output_dir)" in train)


@pytest.mark.parametrize(("recipe", "one"), [(ONE, True), (SEVERAL, False)])
def test_disk_and_time_are_those_of_the_checkpoints_that_are_written(tmp_path: Path, recipe: Tables, one: bool) -> None:
    plan = good(tmp_path, recipe).plan
    assert plan
    stage, parts = plan.stages[0], {part.name: part for part in plan.stages[0].parts}
    storage, result = stage.needs.storage, parts["the result"]
    assert storage.checkpoint_bytes > storage.export_bytes, "what a checkpoint would take decides"
    assert (storage.checkpoints_bytes == 0) == one == (storage.reloaded_bytes == 0)
    assert ("checkpoints" not in parts) == one
    assert ("no checkpoint is written: a run that is cut off begins anew" in result.because) == one
    assert ("of the best checkpoint loaded, unless it is the last" in result.because) != one


def test_verification_expects_no_checkpoint(tmp_path: Path) -> None:
    """But in the trainings that are stopped and resumed."""
    done, root = good(tmp_path, ONE), tmp_path / "out"
    write_bundle(root, done.files, done.plan_json, done.lock)
    stage = read_bundle(root).stages[0]
    assert (stage.saves, list(argument_problems(stage))) == (0, [])
    assert "save_steps" not in learning_values(stage)
    resuming = resuming_patches(read_bundle(root), stage, 1)["script_arguments"]["train.py"]
    assert (resuming["save_strategy"], resuming["save_steps"]) == ("steps", resuming["eval_steps"])
    report = VerifyReport("")
    (tmp_path / "outputs" / "checkpoint-6").mkdir(parents=True)
    check_best(stage, tmp_path / "outputs", {}, report)
    assert not report.ok
    train = root / "train.py"
    train.write_text(train.read_text().replace('save_strategy="no",', 'save_strategy="steps", save_steps=9,'))
    said = "; ".join(argument_problems(read_bundle(root).stages[0]))
    assert "save_strategy is steps, the plan says no" in said and "the plan has no checkpoint" in said


def test_patience_without_a_checkpoint_is_warned_about(tmp_path: Path) -> None:
    assert "W0501" in codes(compiled(tmp_path, with_key(ONE, "train.early_stopping_patience", 3)))


@pytest.mark.parametrize(("name", "gains"), [("grpo", False), ("lora-single", True)])
def test_a_merge_may_lose_a_share_of_what_the_loss_gained(tmp_path: Path, name: str, gains: bool) -> None:
    """Rewards are learned, and the loss of the prompts is not."""
    bundle = texts(good(tmp_path, BASES[name]))
    assert ("10% of what training gained" in bundle["evaluate.py"]) == gains
    assert ("0.1 * (before - after)" in bundle["evaluate.py"]) == gains
    assert "if merged - after > " in bundle["evaluate.py"]
