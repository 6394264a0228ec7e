"""The frameworks' own loaders, in processes of their own: what they refuse, and what they would silently ignore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, good, with_key
from emitted import RECIPES, built, copy_of
from msgspec.structs import replace
from tiers import one_in

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.static.frameworks import answer, check_frameworks

pytestmark = pytest.mark.usefixtures("forked")

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
    (*TRAIN, "learning_rate=", "learning_rate=0 * ", "every learning rate of the planned steps (7) is 0"),
    (*TRAIN, "warmup_steps=0.1", "warmup_steps=7", "the warmup has 7 of the planned steps (7)"),
]
TRACKING = {"trackers": [], "project": None, "run": None}
PLANNED = {"arguments": {"learning_rate": 0.0003}, "steps": 7, "processes": 1, "tracking": TRACKING}
ARGUMENTS = {"accelerate_yaml": (), "deepspeed_json": ("8",), "trainer_config": (json.dumps(PLANNED),)}


def problems(name: str, *arguments: str | Path) -> list[str]:
    """All that a probe finds, of whatever kind."""
    told = answer(name, *arguments)
    kinds = told.values() if isinstance(told, dict) else [told]
    return [problem for found in kinds if isinstance(found, list) for problem in found]


@pytest.mark.parametrize(("name", "recipe", "file"), [FSDP, ACCELERATE, DEEPSPEED, TRAIN])
def test_the_framework_reads_what_is_emitted(name: str, recipe: str, file: str) -> None:
    assert problems(name, built(recipe) / file, *ARGUMENTS[name]) == []


def test_the_ranks_of_the_plan_make_whole_generations(tmp_path: Path) -> None:
    """TRL counts the answers of all ranks: 8 of each hold no group of 16, those of 4 ranks hold two."""
    recipe = BASES["grpo"]
    for key, value in (("strategy", "ddp"), ("global_batch_size", 32), ("micro_batch_size", 8)):
        recipe = with_key(recipe, f"train.{key}", value)
    done = good(tmp_path, with_key(recipe, "hardware.gpus_per_node", 4))
    write_bundle(tmp_path / "out", done.files, done.plan_json, done.lock)
    script = tmp_path / "out/train.py"
    planned = {"arguments": {"num_generations": 16}, "steps": 100, "tracking": TRACKING}
    assert problems("trainer_config", script, json.dumps(planned | {"processes": 4})) == []
    assert "must be divisible by" in problems("trainer_config", script, json.dumps(planned | {"processes": 1}))[0]


@pytest.mark.parametrize(("name", "recipe", "file", "old", "new", "words"), one_in(2, DEFECTS))
def test_a_defect_is_found(tmp_path: Path, name: str, recipe: str, file: str, old: str, new: str, words: str) -> None:
    path = copy_of(recipe, tmp_path).root / file
    before = path.read_text(encoding="utf-8")
    assert old in before, f"the test is out of date: {file} has no {old!r}"
    path.write_text(before.replace(old, new, 1), encoding="utf-8")
    found = problems(name, path, *ARGUMENTS[name])
    assert any(words in problem for problem in found), found


def test_a_plan_whose_only_step_is_warmup_is_found() -> None:
    """A warmup of any share is a step at least, and the first step of a warmup has a rate of 0."""
    bundle, report = read_bundle(built("sft-lora")), VerifyReport("static")
    stage = replace(bundle.last, decisions={**bundle.last.decisions, "total_steps": 1})
    check_frameworks(replace(bundle, stages=(stage,)), report)
    configuration, learns = report.checks
    assert configuration.ok
    assert not learns.ok and learns.name == "train.py learns in its planned steps"
    assert learns.detail == (
        "every learning rate of the planned steps (1) is 0, so that no weight changes: the warmup has 1; "
        "lower warmup_steps in train.py, or train for more steps"
    )


TRACKED = """
[track]
to = ["wandb", "mlflow"]
project = "team"
run = "second"
"""


def test_a_project_that_does_not_arrive_is_found(tmp_path: Path) -> None:
    """Told by a keyword that only Trackio reads, by another variable, or under another name of the run."""
    (tmp_path / "data").symlink_to(RECIPES / "data")
    (tmp_path / "tracked.toml").write_text((RECIPES / "sft-lora.toml").read_text() + TRACKED)
    done = compile_recipe(tmp_path / "tracked.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(tmp_path / "out", done.files, done.plan_json, done.lock)
    script, report = tmp_path / "out" / "train.py", VerifyReport("static")
    text = script.read_text()
    for old, new in (
        ('"WANDB_PROJECT"', '"WANDB_NAME"'),
        ('os.environ.setdefault("MLFLOW_EXPERIMENT_NAME", "team")\n', ""),
        ('run_name="second",', 'run_name="sft-lora", project="team",'),
    ):
        assert old in text, f"the test is out of date: train.py has no {old}"
        text = text.replace(old, new)
    script.write_text(text)
    check_frameworks(read_bundle(tmp_path / "out"), report)
    check = report.checks[-1]
    assert not check.ok and check.name == "train.py tells its trackers project and run"
    for told in (
        "wandb gets `huggingface` for its project, the plan says team: set WANDB_PROJECT in train.py",
        "wandb gets `sft-lora` for its run, the plan says second",
        "mlflow gets nothing for its project, the plan says team: set MLFLOW_EXPERIMENT_NAME in train.py",
        "mlflow gets `sft-lora` for its run, the plan says second",
    ):
        assert told in check.detail
