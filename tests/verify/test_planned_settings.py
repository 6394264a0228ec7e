"""Settings of train.py that follow from a decision in another form, from the GPU, or from nothing in the plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.bundle.build import write_bundle
from recipec.verify.bundle import read_bundle
from recipec.verify.static.planned import argument_problems

PLAIN = with_key(BASES["lora-single"], "train.schedule", "warmup-stable-decay")
V100 = with_key(with_key(BASES["lora-single"], "hardware", {"gpu": "v100-32gb"}), "model.name", "Qwen/Qwen2.5-1.5B")
GSPO = with_key(BASES["grpo"], "alignment.variant", "gspo")
ENDS = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen2.5-7B")  # whose turns the template ends otherwise
PASSED_ON = with_key(PLAIN, "train.arguments", {"neftune_noise_alpha": 5.0})


def problems(folder: Path, tables: Tables, old: str, new: str) -> list[str]:
    """What is said of the bundle in which the one is replaced by the other."""
    done = compiled(folder, tables)
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    script = folder / "out" / "train.py"
    text = script.read_text(encoding="utf-8")
    assert old in text, f"the test is out of date: train.py has no {old!r}"
    script.write_text(text.replace(old, new, 1), encoding="utf-8")
    (stage,) = read_bundle(folder / "out").stages
    return [*argument_problems(stage)]


@pytest.mark.parametrize("tables", [PLAIN, V100, PASSED_ON, GSPO], ids=["tf32", "fp16", "passed on", "gspo"])
def test_what_is_built_is_what_is_planned(tmp_path: Path, tables: Tables) -> None:
    assert problems(tmp_path, tables, "seed=42", "seed=42") == []


@pytest.mark.parametrize(
    ("tables", "old", "new", "said"),
    [
        (V100, "fp16=True", "fp16=False", "fp16 is False, the plan says True"),
        (V100, "        fp16=True,\n", "", "fp16 is None, the plan says True"),
        (V100, "seed=42", "tf32=True, seed=42", "tf32 is True, the plan says False"),
        (PLAIN, "seed=42", "fp16=True, seed=42", "fp16 is True, the plan says False"),
        (PLAIN, "tf32=True", "tf32=False", "tf32 is False, the plan says True"),
        (PLAIN, "        tf32=True,\n", "", "tf32 is None, the plan says True"),
        (PLAIN, "seed=42", "torch_compile=True, seed=42", "torch_compile is True, the plan says False"),
        (PLAIN, "adam_beta1=0.9", "adam_beta1=0.1", "adam_beta1 is 0.1, the plan says 0.9"),
        (PLAIN, "int(0.1 *", "int(0.9 *", "the share of the steps in lr_scheduler_kwargs is 0.9, the plan says 0.1"),
        (PLAIN, "lr_scheduler_kwargs=", "model_init=", "the share of the steps in lr_scheduler_kwargs is None"),
        (PLAIN, "seed=42", "neftune_noise_alpha=5.0, seed=42", "neftune_noise_alpha is 5.0, which is not of the plan"),
        (
            PLAIN,
            "seed=42",
            "label_smoothing_factor=A, seed=42",
            "label_smoothing_factor is A, which is not of the plan",
        ),
        (PASSED_ON, "neftune_noise_alpha=5.0", "neftune_noise_alpha=50.0", "is 50.0, and was built as 5.0"),
        (GSPO, 'importance_sampling_level="sequence"', 'importance_sampling_level="token"', "was built as 'sequence'"),
        (GSPO, '        scale_rewards="group",\n', "", "scale_rewards is not set, and was built as 'group'"),
        (ENDS, 'eos_token="<|im_end|>",', "", "eos_token is not set, and was built as '<|im_end|>'"),
        (GSPO, "seed=42", "vllm_importance_sampling_correction=False, seed=42", "which is not of the plan"),
    ],
)
def test_another_setting_is_found(tmp_path: Path, tables: Tables, old: str, new: str, said: str) -> None:
    found = problems(tmp_path, tables, old, new)
    assert any(said in problem for problem in found), found


@pytest.mark.parametrize("added", ["disable_tqdm=True", "logging_first_step=True", "hub_model_id='me/own'"])
def test_what_is_told_or_kept_otherwise_may_be_added(tmp_path: Path, added: str) -> None:
    assert problems(tmp_path, PLAIN, "seed=42", f"{added}, seed=42") == []


def test_of_a_bundle_whose_built_text_is_gone_no_argument_counts_as_added(tmp_path: Path) -> None:
    assert problems(tmp_path, PLAIN, "seed=42", "neftune_noise_alpha=5.0, seed=42")
    (tmp_path / "out/.recipec/last/train.py").unlink()
    (stage,) = read_bundle(tmp_path / "out").stages
    assert [*argument_problems(stage)] == []
