"""The frameworks' own loaders, in clean processes: what they refuse, and what they would silently ignore."""

from __future__ import annotations

from pathlib import Path

import pytest
from emitted import built, copy_of
from msgspec.structs import replace

from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.static.frameworks import check_frameworks, probe

# probe, recipe, file, text, what replaces it, words of the finding
FSDP = ("accelerate_yaml", "fsdp", "configs/fsdp.yaml")
ACCELERATE = ("accelerate_yaml", "zero3", "configs/accelerate.yaml")
DEEPSPEED = ("deepspeed_json", "zero3", "configs/deepspeed.json")
TRAIN = ("trainer_config", "sft-lora", "train.py")
DEFECTS = [
    (*FSDP, "fsdp_reshard_after", "fsdp_reshard_behind", "would be ignored"),
    (*FSDP, "SHARDED_STATE_DICT", "SHARDED", "KeyError: 'SHARDED'"),
    (*FSDP, "num_machines", "machines", "unknown keys"),
    (*FSDP, "fsdp_config:", "fsdp_config:\n  fsdp_forward_prefetch: true", "belongs to FSDP1"),
    (*ACCELERATE, "num_machines: 1", "num_machines: 1\nmixed_precision: bf16", "is refused beside"),
    (*DEEPSPEED, "bucket_size", "bucket_limit", "DeepSpeed refuses it"),
    (*DEEPSPEED, '"steps_per_print"', '"steps_per_line"', "steps_per_line is never read"),
    (*DEEPSPEED, '_clipping": 1.0', '_clipping": "auto"', "state the number"),
    (*TRAIN, "warmup_steps=", "warmup_ratio=", "unexpected keyword"),
    (*TRAIN, "learning_rate=", "learning_rate=2 * ", "the plan says"),
    (*TRAIN, "learning_rate=", "learning_rate=0 * ", "every learning rate of the 7 planned steps is 0"),
    (*TRAIN, "warmup_steps=0.1", "warmup_steps=7", "the warmup has 7 of the 7 planned steps"),
]
ARGUMENTS = {"accelerate_yaml": (), "deepspeed_json": ("8",), "trainer_config": ('{"learning_rate": 0.0003}', "7")}


@pytest.mark.parametrize(("name", "recipe", "file"), [FSDP, ACCELERATE, DEEPSPEED, TRAIN])
def test_the_framework_reads_what_is_emitted(name: str, recipe: str, file: str) -> None:
    assert probe(name, built(recipe) / file, *ARGUMENTS[name]) == []


@pytest.mark.parametrize(("name", "recipe", "file", "old", "new", "words"), DEFECTS)
def test_a_defect_is_found(tmp_path: Path, name: str, recipe: str, file: str, old: str, new: str, words: str) -> None:
    path = copy_of(recipe, tmp_path).root / file
    before = path.read_text(encoding="utf-8")
    assert old in before, f"the test is out of date: {file} has no {old!r}"
    path.write_text(before.replace(old, new, 1), encoding="utf-8")
    problems = probe(name, path, *ARGUMENTS[name])
    assert any(words in problem for problem in problems), problems


def test_a_plan_whose_only_step_is_warmup_is_found() -> None:
    """A warmup of any share is a step at least, and the first step of a warmup has a rate of 0."""
    bundle, report = read_bundle(built("sft-lora")), VerifyReport("static")
    stage = replace(bundle.last, decisions={**bundle.last.decisions, "total_steps": 1})
    check_frameworks(replace(bundle, stages=(stage,)), report)
    (check,) = report.checks
    assert (
        check.detail == "every learning rate of the one planned step is 0, so that no weight changes: the warmup has 1"
    )
