"""Every static check passes on what the compiler emits and catches its seeded defect."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from emitted import built, copy_of

from recipec.cli.group import recipec
from recipec.verify.bundle import Bundle, NotABundle, read_bundle
from recipec.verify.process import program
from recipec.verify.report import VerifyReport
from recipec.verify.static import consistency, documents, launch, python, shell, text
from recipec.verify.static.files import missing_problems
from recipec.verify.verify import check_statically

CHECKS: dict[str, Callable[[Bundle], list[str]]] = {
    "syntax": python.syntax_problems,
    "ruff check": lambda bundle: python.ruff_problems(bundle, "check", "--select", python.RULES),
    "ruff format": lambda bundle: python.ruff_problems(bundle, "format", "--check"),
    "device": python.device_problems,
    "imports": python.import_problems,
    "pins": python.pin_problems,
    "parse": documents.parse_problems,
    "registry": documents.registry_problems,
    "bash": shell.bash_problems,
    "shellcheck": lambda bundle: shell.shellcheck_problems(bundle, program("shellcheck") or "shellcheck"),
    "traces": text.trace_problems,
    "consistency": consistency.consistency_problems,
    "launch": launch.launch_problems,
    "failure": launch.failure_problems,
}

# check, recipe, file, text, what replaces it, words of the finding
DEFECTS = [
    ("syntax", "sft-lora", "train.py", "def main() -> None:", "def main( -> None:", "train.py"),
    ("ruff check", "sft-lora", "train.py", "import argparse\n", "import argparse\nimport glob\n", "F401"),
    ("ruff format", "sft-lora", "train.py", "seed=42,", "seed = 42,", "train.py"),
    ("device", "sft-lora", "evaluate.py", '{"": PartialState().device}', '{"": "cuda"}', "evaluate.py:"),
    ("imports", "sft-lora", "train.py", "import argparse\n", "import argparse\nimport recipec\n", "without it"),
    ("imports", "sft-lora", "train.py", "import argparse\n", "import argparse\nimport wandb\n", "not pin"),
    ("pins", "sft-lora", "requirements.txt", "trl==1.16.0", "trl==1.15.0", "1.15.0 is not the stack's 1.16.0"),
    ("pins", "sft-lora", "requirements.txt", "trl==1.16.0", "trl>=1.16.0", "trl>=1.16.0"),
    ("parse", "zero3", "configs/deepspeed.json", '"steps_per_print"', '"bf16": {}, "steps_per_print"', "twice: bf16"),
    ("parse", "fsdp", "configs/fsdp.yaml", "machine_rank: 0", "machine_rank: 0\nmachine_rank: 1", "machine_rank"),
    ("parse", "fsdp", "configs/fsdp.yaml", "fsdp_config:", "fsdp_config: [", "fsdp.yaml"),
    ("registry", "sft-lora", "registry/entry.json", '"experimental"', '"nearly"', "status: 'nearly'"),
    ("bash", "sft-lora", "launch/local.sh", "set -euo pipefail", "if true; then", "syntax error"),
    ("shellcheck", "sft-lora", "launch/local.sh", '"$BUNDLE/prepare_data.py"', "$BUNDLE/prepare_data.py", "SC2086"),
    ("traces", "sft-lora", "README.md", "# ", f"# {Path.cwd()}/data ", "names the folder"),
    ("traces", "sft-lora", "train.py", "seed=42,", "seed=42,  # 2026-01-02 10:11", "names a moment"),
    ("traces", "sft-lora", "train.py", "seed=42,", f"seed=42,  # hf_{'a' * 34}", "like a token"),
    ("consistency", "sft-lora", "train.py", "seed=42,", "seed=43,", "seed is 43"),
    *(
        ("consistency", recipe, file, old, new, words)
        for recipe, file, old, new, words in [
            ("sft-lora", "train.py", "num_train_epochs=5", "num_train_epochs=1", "num_train_epochs is 1, the plan"),
            ("sft-lora", "train.py", '"cosine"', '"linear"', "lr_scheduler_type is linear, the plan says cosine"),
            ("sft-lora", "train.py", "warmup_steps=0.1", "warmup_steps=0.3", "warmup_steps is 0.3"),
            ("sft-lora", "train.py", "weight_decay=0.01", "weight_decay=0.1", "weight_decay is 0.1"),
            ("sft-lora", "train.py", "        max_grad_norm=1.0,\n", "", "max_grad_norm is None, the plan says 1.0"),
            ("sft-lora", "train.py", "lora_alpha=32", "lora_alpha=16", "lora_alpha is 16, the plan says 32"),
            ("sft-lora", "train.py", "r=16", "r=8", "r is 8, the plan says 16"),
            ("sft-lora", "train.py", "completion_only_loss=True", "completion_only_loss=False", "completion_only_loss"),
            ("sft-lora", "train.py", "greater_is_better=False", "greater_is_better=True", "greater_is_better is True"),
            ("sft-lora", "train.py", "patience=3", "patience=1", "patience is 1, the plan says 3"),
            ("sft-lora", "train.py", "save_steps=0.2", "save_steps=0.9", "save_steps is 0.9"),
            ("sft-lora", "evaluate.py", "MAX_ROWS = ", "MAX_ROWS = 10  # ", "MAX_ROWS is 10, the plan says"),
            ("sft-lora", "evaluate.py", "MAX_LENGTH = ", "MAX_LENGTH = 16  # ", "MAX_LENGTH is 16, the plan says"),
            (
                "sft-lora",
                "train.py",
                "def lora_config(",
                "def make_lora(",
                "lora_config of train.py: r is None",
            ),
            ("sft-lora", "evaluate.py", "MAX_ROWS = ", "MOST_ROWS = ", "MAX_ROWS is None, the plan says"),
            ("sft-lora", "evaluate.py", "MAX_LENGTH = ", "MOST_TOKENS = ", "MAX_LENGTH is None, the plan says"),
            ("sft-dpo", "stages/2-dpo/train.py", "beta=0.1", "beta=0.5", "beta is 0.5, the plan says 0.1"),
            ("sft-dpo", "stages/2-dpo/train.py", "        beta=0.1,\n", "", "beta is None, the plan says 0.1"),
            ("sft-dpo", "stages/2-dpo/train.py", '["sigmoid"]', '["ipo"]', "loss_type is ['ipo'], the plan says"),
            ("rloo", "train.py", "beta=0.05", "beta=0.5", "beta is 0.5, the plan says 0.05"),
            ("rloo", "train.py", "steps_per_generation=1", "steps_per_generation=4", "steps_per_generation is 4"),
            ("simpo", "train.py", "gamma=1.0", "gamma=0.5", "gamma is 0.5, the plan says 1.0"),
            ("packed", "train.py", "packing=True", "packing=False", "packing is False, the plan says True"),
            ("packed", "train.py", "        packing=True,\n", "", "packing is None, the plan says True"),
            ("sft-lora", "train.py", "        completion_only_loss=True,\n", "", "completion_only_loss is None"),
            ("sft-lora", "train.py", '"adamw_torch_fused"', '"adafactor"', "optim is adafactor, the plan says adamw"),
            ("sft-lora", "train.py", "prefetch_factor=2", "prefetch_factor=9", "prefetch_factor is 9"),
            ("adapters", "stages/1-support/train.py", "<|im_end|>", "<|end|>", "eos_token is <|end|>, the plan says"),
            ("fp8", "train.py", "torch_compile=True", "torch_compile=False", "torch_compile is False, the plan"),
            ("rslora", "train.py", "use_rslora=True", "use_rslora=False", "use_rslora is False, the plan says True"),
            ("loop-torch", "train.py", "load_best_model_at_end=True", "load_best_model_at_end=False", "the plan says"),
            ("loop-torch", "train.py", "save_steps=0.2", "save_steps=0", "save_steps is 0, the plan"),
            ("loop-lora", "train.py", "save_steps=0.2", "save_steps=-1", "save_steps is -1, the plan"),
            ("loop-torch", "train.py", "self.save()", "pass", "never calls save(): the run writes no checkpoints"),
            ("loop-torch", "train.py", " save_checkpoint(", " print(", "never calls save_checkpoint()"),
            (
                "loop-deepspeed",
                "train.py",
                "training.finish()",
                "pass",
                "never calls finish(): the run writes no result",
            ),
            ("loop-lora", "train.py", "self.save_model(self.output_dir)", "pass", "never calls save_model()"),
            ("loop-lora", "train.py", "early_stopping_patience=3", "early_stopping_patience=1", "patience is 1"),
        ]
    ),
    ("consistency", "full-ddp", "configs/accelerate.yaml", "num_processes: 4", "num_processes: 8", "is 8"),
    ("consistency", "fsdp", "configs/fsdp.yaml", "Qwen2DecoderLayer", "LlamaDecoderLayer", "layers are Qwen2Dec"),
    ("consistency", "fsdp", "configs/fsdp.yaml", "fsdp_config:", "fsdp_config: [", "it is not YAML"),
    ("consistency", "fsdp", "configs/fsdp.yaml", ": FSDP", ": MULTI_GPU", "distributed_type is MULTI_GPU"),
    ("consistency", "zero3", "configs/deepspeed.json", '_gpu": 8', '_gpu": 4', "the plan says 8"),
    ("consistency", "zero3", "configs/deepspeed.json", '"steps_per', '"train_batch_size": 64, "steps_per', "pins the"),
    ("consistency", "zero3", "configs/accelerate.yaml", "configs/deepspeed.json", "configs/ds.json", "not exist"),
    (
        "launch",
        "full-ddp",
        "launch/local.sh",
        "NODE 4 sft",
        "NODE 2 sft",
        "sft on node 0: --num_processes is 2, planned: 4",
    ),
    ("launch", "full-ddp", "launch/local.sh", "accelerate launch", "python", "started by python, planned: accelerate"),
    ("launch", "zero3", "launch/local.sh", "/deepspeed.json", "/ds.json", "--deepspeed_config_file is configs/ds.json"),
    ("launch", "hsdp", "launch/nodes.sh", "SHARDS 8", "SHARDS 4", "dp_shard_size is 4, planned: 8"),
    ("launch", "hsdp", "launch/nodes.sh", "NNODES 2", "NNODES 1", "node 0: --num_machines is 1, planned: 2"),
    ("launch", "hsdp", "launch/nodes.sh", 'machine_rank "$NODE"', 'machine_rank "0"', "node 1: --machine_rank is 0"),
    ("launch", "mixed-ranks", "launch/local.sh", 'CUDA_VISIBLE_DEVICES="${DEV', 'X="${DEV', "it sees all devices"),
    (
        "launch",
        "mixed-nodes",
        "launch/nodes.sh",
        "NNODES 1",
        "NNODES 2",
        "dpo on node 0: --num_machines is 2, planned: 1",
    ),
    (
        "launch",
        "mixed-nodes",
        "launch/nodes.sh",
        '[[ "$NODE" -ge',
        "[[ 0 -ge",
        "node 1 trains sft, dpo, planned: sft",
    ),
    ("launch", "mixed-nodes", "launch/nodes.sh", "configs/dpo/", "configs/sft/", "num_machines 2, planned: 1"),
    (
        "launch",
        "sft-dpo",
        "launch/local.sh",
        "/stages/2-dpo/train",
        "/stages/1-sft/train",
        "trains sft, sft, planned: sft, dpo",
    ),
    ("failure", "sft-lora", "launch/local.sh", "set -euo pipefail", "set -u", "goes on with evaluate.py when python"),
    ("failure", "sft-lora", "launch/local.sh", '/train.py" "$@"', '/train.py" "$@" || true', "python train.py has"),
    ("failure", "sft-lora", "launch/local.sh", '/prepare_data.py"', '/prepare_data.py" || true', "prepare_data.py has"),
    (
        "failure",
        "mixed-nodes",
        "launch/nodes.sh",
        'wait "$TRAINING"',
        'wait "$TRAINING" || true',
        "train.py has",
    ),
    ("failure", "sft-dpo", "launch/local.sh", '/merge_adapter.py"', '/merge_adapter.py" || :', "merge_adapter.py has"),
]


@pytest.mark.parametrize(
    "recipe", ["sft-lora", "warm", "full-ddp", "fsdp", "zero3", "hsdp", "sft-dpo", "mixed-ranks", "mixed-nodes"]
)
def test_an_emitted_bundle_has_no_problem(recipe: str) -> None:
    bundle = read_bundle(built(recipe))
    found = {name: problems for name, check in CHECKS.items() if (problems := check(bundle))}
    assert not found


@pytest.mark.parametrize(("check", "recipe", "file", "old", "new", "words"), DEFECTS)
def test_a_defect_is_found(tmp_path: Path, check: str, recipe: str, file: str, old: str, new: str, words: str) -> None:
    bundle = copy_of(recipe, tmp_path)
    path = bundle.root / file
    before = path.read_text(encoding="utf-8")
    assert old in before, f"the test is out of date: {file} has no {old!r}"
    path.write_text(before.replace(old, new, 1), encoding="utf-8")
    problems = CHECKS[check](read_bundle(bundle.root))
    assert any(words in problem for problem in problems), problems


def test_a_script_that_cannot_be_executed_is_found(tmp_path: Path) -> None:
    bundle = copy_of("sft-lora", tmp_path)
    (bundle.root / "launch/local.sh").chmod(0o644)
    assert shell.bash_problems(bundle) == ["launch/local.sh is not executable"]


def test_the_first_stages_numbers_are_not_those_of_all(tmp_path: Path) -> None:
    """SFT on four processes, DPO on one: a script that decides once, for the first stage, is found."""
    bundle = copy_of("mixed-ranks", tmp_path)
    path = bundle.root / "launch/local.sh"
    text = path.read_text(encoding="utf-8")
    first, second = (line for line in text.splitlines() if "/train.py" in line)
    start = text[text.index("accelerate launch") : text.index(first) + len(first)]
    path.write_text(text.replace(second, start.replace("1-sft", "2-dpo")), encoding="utf-8")
    assert "dpo on node 0: it is started by accelerate, planned: python" in launch.launch_problems(bundle)


@pytest.mark.parametrize("line", ["export UID=5", "exit 3"])
def test_a_script_that_ends_with_an_error_is_found(tmp_path: Path, line: str) -> None:
    """Also behind everything that it starts."""
    bundle = copy_of("full-ddp", tmp_path)
    path = bundle.root / "launch/local.sh"
    path.write_text(f"{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    (problem,) = launch.launch_problems(bundle)
    assert problem.startswith("on node 0 it ends with exit code ")
    assert ("UID: readonly variable" in problem) == ("UID" in line)


def test_reading_the_script_starts_nothing_of_it(tmp_path: Path) -> None:
    """Whatever the recipe's own commands put on the path, and whether or not they work on this machine."""
    bundle, marker, programs = copy_of("full-ddp", tmp_path), tmp_path / "started", tmp_path / "bin"
    programs.mkdir()
    for name in ("python", "accelerate", "module"):
        (programs / name).write_text(f"#!/bin/sh\n: > {marker}\n")
        (programs / name).chmod(0o755)
    path = bundle.root / "launch/local.sh"
    setup = f"source /opt/none\nmodule load gpu\nfalse\ncd /none/here\nPATH={programs}:$PATH\n"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('\npython "$BUNDLE/prep', f'\n{setup}python "$BUNDLE/prep'), encoding="utf-8")
    assert launch.launch_problems(bundle) == []
    assert not marker.exists()


@pytest.mark.parametrize("own_settings", [True, False])
def test_a_ruff_that_a_bundle_brings_is_not_run(
    tmp_path: Path, own_settings: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a package, nor a module, nor a program, also for who stands in the bundle's folder; ruff itself is."""
    bundle, marker = copy_of("sft-lora", tmp_path), tmp_path / "started"
    planted, train = f"open({str(marker)!r}, 'w').close()\n", bundle.root / "train.py"
    train.write_text(train.read_text().replace("import argparse\n", "import argparse\nimport glob\n"))
    unused = "train.py:13:8: F401 [*] `glob` imported but unused"
    (bundle.root / "ruff").mkdir()
    for name in ("ruff/__init__.py", "ruff/__main__.py", "ruff.py"):
        (bundle.root / name).write_text(planted)
    (bundle.root / "bin").mkdir()
    (bundle.root / "bin" / "ruff").write_text(f"#!/bin/sh\n: > {marker}\n")
    (bundle.root / "bin" / "ruff").chmod(0o755)
    if not own_settings:
        (bundle.root / "ruff.toml").unlink()
    monkeypatch.chdir(bundle.root)
    monkeypatch.setenv("PATH", "bin", prepend=":")
    problems = python.ruff_problems(bundle, "check", "--select", python.RULES)
    assert not marker.exists()
    assert [problem for problem in problems if "ruff" not in problem.partition(":")[0]] == [unused]


def test_a_tool_is_beside_this_python_or_at_a_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shellfoo").write_text("#!/bin/sh\n")
    (tmp_path / "shellfoo").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert program("shellfoo") is None and program("ruff") == str(Path(sys.executable).with_name("ruff"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program("shellfoo") == str(tmp_path / "shellfoo")


def test_the_help_says_that_every_level_executes_the_bundle() -> None:
    said = " ".join(CliRunner().invoke(recipec, ["verify", "--help"]).output.split())
    assert "Every level executes code of the bundle" in said and "imports train.py" in said


def test_a_missing_schema_is_found(tmp_path: Path) -> None:
    bundle = copy_of("sft-lora", tmp_path)
    (bundle.root / "registry/entry.schema.json").unlink()
    assert documents.registry_problems(bundle) == ["registry/entry.schema.json is missing"]


def test_what_a_run_produced_is_not_checked(tmp_path: Path) -> None:
    bundle = copy_of("sft-lora", tmp_path)
    for folder in ("outputs", "data/sft", "__pycache__"):
        (bundle.root / folder).mkdir(parents=True)
        (bundle.root / folder / "broken.json").write_text("{")
    assert not documents.parse_problems(bundle)


def test_every_file_of_the_bundle_is_looked_at() -> None:
    bundle = read_bundle(built("zero3"))
    emitted = json.loads((bundle.root / ".recipec/lock.json").read_text())["files"]
    assert {bundle.name_of(path) for path in bundle.files} == set(emitted)


def test_ruff_in_a_bundle_looks_for_what_verify_looks_for() -> None:
    """Without a list of its own, the rules would be those of whichever ruff is installed."""
    examples = Path(__file__).parents[2] / "generated-examples"
    own = tomllib.loads((examples / "support-chat" / "ruff.toml").read_text())
    assert ",".join(own["lint"]["select"]) == python.RULES


def test_files_that_are_gone_are_found_and_documents_may_be_taken_out(tmp_path: Path) -> None:
    bundle = copy_of("sft-lora", tmp_path)
    assert missing_problems(bundle) == []
    for path in ("prepare_data.py", "launch/local.sh", "README.md"):
        (bundle.root / path).unlink()
    os.mkfifo(bundle.root / "evaluate.py.tmp")
    os.replace(bundle.root / "evaluate.py.tmp", bundle.root / "evaluate.py")
    (problem,) = missing_problems(read_bundle(bundle.root))
    assert {*problem.partition(": ")[0].split(", ")} == {
        "prepare_data.py",
        "launch/local.sh",
        "README.md",
        "evaluate.py",
    }
    record = bundle.root / ".recipec/lock.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"deleted": ["README.md", "prepare_data.py"]}))
    (problem,) = missing_problems(read_bundle(bundle.root))
    gone = problem.partition(": ")[0]
    assert "README.md" not in gone and "prepare_data.py" in gone
    report = VerifyReport("static")
    assert not check_statically(read_bundle(bundle.root), report)
    assert [check.name for check in report.checks] == ["every built file is there"] and not report.ok


def test_a_plan_without_stages_is_that_of_no_bundle(tmp_path: Path) -> None:
    bundle = copy_of("sft-lora", tmp_path)
    record = bundle.root / ".recipec/plan.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"stages": []}))
    with pytest.raises(NotABundle, match="has no stages"):
        read_bundle(bundle.root)


def test_a_plan_of_more_nodes_than_a_recipe_may_have_is_that_of_no_bundle(tmp_path: Path) -> None:
    """The launch script is read for each node: of a million it would be read for hours."""
    bundle = copy_of("sft-lora", tmp_path)
    record = bundle.root / ".recipec/plan.json"
    plan = json.loads(record.read_text())
    plan["stages"][0]["choice"]["world_size"] = 1_000_000
    record.write_text(json.dumps(plan))
    with pytest.raises(NotABundle, match="names 1,000,000 nodes: no recipe has more than 1,024"):
        read_bundle(bundle.root)
