"""Bundles whose files or records somebody took out, cut or overwrote: each is found and named, and nothing goes on."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emitted import copy_of

from recipec.verify import plan_form
from recipec.verify.bundle import MOST_ADDED_BYTES, NotABundle, read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.static import STATIC_CHECKS, frameworks, launch, text
from recipec.verify.static.files import check_files, missing_problems


def change(record: Path, edit: Callable[[Any], object]) -> None:
    """Let `edit` change the document in a JSON file."""
    document = json.loads(record.read_text())
    edit(document)
    record.write_text(json.dumps(document))


def test_a_file_that_scripts_read_may_not_be_taken_out(tmp_path: Path) -> None:
    """A build notes every deletion; only what no script reads may stay away."""
    root = copy_of("zero3", tmp_path).root
    gone = ["README.md", "registry/entry.json", "configs/deepspeed.json", "requirements.txt"]
    for path in gone:
        (root / path).unlink()
    change(root / ".recipec/lock.json", lambda lock: lock.update(deleted=gone))
    (problem,) = missing_problems(read_bundle(root))
    assert problem.startswith("configs/deepspeed.json, requirements.txt: ")


def test_a_script_that_people_start_may_be_taken_out(tmp_path: Path) -> None:
    """The merge of the last stage, which nothing starts; not that of a stage whose result another one begins with."""
    root = copy_of("sft-dpo", tmp_path).root
    gone = ["stages/1-sft/merge_adapter.py", "stages/2-dpo/merge_adapter.py"]
    for path in gone:
        (root / path).unlink()
    assert missing_problems(read_bundle(root))[0].startswith(", ".join(gone))  # no build has noted it
    change(root / ".recipec/lock.json", lambda lock: lock.update(deleted=gone))
    (problem,) = missing_problems(read_bundle(root))
    assert problem.startswith(f"{gone[0]}: ") and "merge_adapter.py" in problem.partition(". Only ")[2]


def test_a_file_that_the_lock_no_longer_names_is_missed(tmp_path: Path) -> None:
    root = copy_of("sft-lora", tmp_path).root
    change(root / ".recipec/lock.json", lambda lock: (lock["files"].pop("evaluate.py"), lock["files"].pop("rows.py")))
    (root / "evaluate.py").unlink()
    (problem,) = missing_problems(read_bundle(root))
    assert problem.startswith("evaluate.py: ")


def test_what_ruff_keeps_is_no_file_of_the_build(tmp_path: Path) -> None:
    """Ruff has a cache of its own beside every ruff.toml that it finds."""
    root = copy_of("sft-lora", tmp_path).root
    cache = root / ".recipec/last/.ruff_cache/CACHEDIR.TAG"
    cache.parent.mkdir()
    cache.touch()
    assert missing_problems(read_bundle(root)) == []


def test_a_launch_script_is_missed_unless_its_owner_deleted_it(tmp_path: Path) -> None:
    root = copy_of("sft-lora", tmp_path).root
    (root / "launch/local.sh").unlink()
    change(root / ".recipec/lock.json", lambda lock: lock["files"].pop("launch/local.sh"))
    assert missing_problems(read_bundle(root))[0].startswith("launch/local.sh: ")
    change(root / ".recipec/lock.json", lambda lock: lock.update(deleted=["launch/local.sh"]))
    report = VerifyReport("static")
    assert check_files(read_bundle(root), report)
    assert [row.what for row in report.not_run] == ["launch/local.sh"] and "deleted it" in report.not_run[0].reason


def test_a_script_that_the_launch_script_starts_must_exist(tmp_path: Path) -> None:
    """Also where no record names it; what the recipe's own setup starts elsewhere is its own."""
    bundle = copy_of("sft-dpo", tmp_path)
    path = bundle.root / "launch/local.sh"
    path.write_text(path.read_text().replace('\npython "$BUNDLE/prep', '\npython mine.py\npython "$BUNDLE/prep'))
    assert launch.launch_problems(bundle) == []
    (bundle.root / "stages/1-sft/merge_adapter.py").unlink()
    assert launch.launch_problems(bundle) == ["node 0 starts stages/1-sft/merge_adapter.py, which does not exist"]


def test_large_files_beside_the_emitted_ones_are_not_read(tmp_path: Path) -> None:
    root = copy_of("sft-lora", tmp_path).root
    (root / "weights").mkdir()
    with (root / "weights/model.json").open("wb") as file:
        file.truncate(MOST_ADDED_BYTES + 1)
    (root / "notes.md").write_text(f"hf_{'a' * 34}\n")
    bundle, report = read_bundle(root), VerifyReport("static")
    assert root / "weights/model.json" not in bundle.files and text.trace_problems(bundle)[0].startswith("notes.md:1")
    assert check_files(bundle, report) and [row.what for row in report.not_run] == ["weights/model.json"]


def test_an_emitted_file_that_grew_too_large_is_named(tmp_path: Path) -> None:
    bundle = copy_of("sft-lora", tmp_path)
    os.truncate(bundle.root / "train.py", 65 * 2**20)
    report = VerifyReport("static")
    assert not check_files(bundle, report)
    assert report.checks[0].detail == "train.py: it is larger than 64 MiB"


@pytest.mark.parametrize("waits", [True, False])
def test_nothing_that_a_launch_script_leaves_running_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Neither where bash ends at once, nor where it is stopped at the time limit."""
    bundle, pids = copy_of("sft-lora", tmp_path), tmp_path / "pids"
    path = bundle.root / "launch/local.sh"
    left = f"(while :; do read -t 0.2 < <(:); done) &\nprintf '%s\\n' $! >> {pids}\n" + "while :; do :; done\n" * waits
    path.write_text(path.read_text().replace("set -euo pipefail\n", f"set -euo pipefail\n{left}"))
    monkeypatch.setattr(launch, "_LIMIT_SECONDS", 1.0)
    if waits:
        with pytest.raises(ValueError, match="has not come to its end"):
            launch.starts(bundle, 0, {})
    else:
        assert launch.starts(bundle, 0, {})
    started = [int(pid) for pid in pids.read_text().split()]
    deadline = time.monotonic() + 5
    while any(map(_lives, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert started and not any(map(_lives, started))


def _lives(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for its parent to look at it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def decision(plan: Any, id: str) -> Any:
    """The entry of a decision of the first stage."""
    return next(entry for entry in plan["stages"][0]["decisions"] if entry["id"] == id)


BROKEN_PLANS: list[tuple[str, Callable[[Any], object]]] = [
    ("gpus_per_node", lambda plan: decision(plan, "gpus_per_node").update(value=None)),
    ("gpus_per_node", lambda plan: decision(plan, "gpus_per_node").update(value={"a": 1})),
    ("gpus_per_node", lambda plan: decision(plan, "gpus_per_node").update(value=0)),
    ("gpus_per_node", lambda plan: decision(plan, "gpus_per_node").update(id="another")),
    ("value", lambda plan: decision(plan, "seed").pop("value")),
    ("gradient_accumulation", lambda plan: plan["stages"][0]["choice"].pop("gradient_accumulation")),
    ("save_every", lambda plan: decision(plan, "save_every").update(value=[])),
    ("lora_rank", lambda plan: decision(plan, "lora_rank").update(value="many")),
    ("total_steps", lambda plan: decision(plan, "total_steps").update(value=10**400)),
    ("mesh", lambda plan: plan["stages"][0]["choice"].update(mesh=None)),
    ("choice.strategy", lambda plan: plan["stages"][0]["choice"].update(strategy="magic")),
    ("quantization", lambda plan: plan["stages"][0]["choice"].update(quantization="magic")),
    ("loop", lambda plan: plan["stages"][0]["decisions"].append(decision(plan, "seed") | {"id": "loop", "value": []})),
    ("objective", lambda plan: plan["stages"][0].update(objective="magic")),
    ("stages", lambda plan: plan.update(stages=5)),
]


@pytest.mark.parametrize(("key", "damage"), BROKEN_PLANS)
def test_a_plan_of_another_form_is_that_of_no_bundle(tmp_path: Path, key: str, damage: Callable[[Any], object]) -> None:
    root = copy_of("sft-lora", tmp_path).root
    change(root / ".recipec/plan.json", damage)
    with pytest.raises(NotABundle, match=rf"is not the plan of a bundle: .*\b{key}\b"):
        read_bundle(root)


def test_a_plan_that_generates_has_what_its_checks_calculate_with(tmp_path: Path) -> None:
    root = copy_of("grpo", tmp_path).root
    change(root / ".recipec/plan.json", lambda plan: decision(plan, "updates").update(id="another"))
    with pytest.raises(NotABundle, match=r"missing required field `updates`"):
        read_bundle(root)


@pytest.mark.parametrize("text", ["", "[1]", "[" * 100_000, '{"stages": [5]}', "\x00"])
def test_a_plan_that_is_no_document_is_that_of_no_bundle(tmp_path: Path, text: str) -> None:
    root = copy_of("sft-lora", tmp_path).root
    (root / ".recipec/plan.json").write_text(text)
    with pytest.raises(NotABundle, match="is not the plan of a bundle"):
        read_bundle(root)


def test_every_key_of_a_plan_that_a_check_reads_has_its_type() -> None:
    package = Path(plan_form.__file__).parent
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    tables = plan_form.DecidedForm, plan_form.GeneratedForm, plan_form.RewardedForm, plan_form.AdaptedForm
    decided = {name for table in tables for name in table.__struct_fields__}
    assert {*re.findall(r'decisions\["(\w+)"\]', source)} <= decided
    assert {*re.findall(r'choice\["(\w+)"\]', source)} <= {*plan_form.ChoiceForm.__struct_fields__}


BROKEN_FILES = [
    ("zero3", "configs/deepspeed.json", b"[1]", "configs/deepspeed.json: it holds no keys"),
    ("zero3", "configs/deepspeed.json", b"{", "configs/deepspeed.json: it is not JSON"),
    ("zero3", "configs/accelerate.yaml", b"deepspeed_config: 5\n", "accelerate.yaml: deepspeed_config holds no keys"),
    ("fsdp", "configs/fsdp.yaml", b"5\n", "configs/fsdp.yaml: it holds no keys"),
    ("fsdp", "configs/fsdp.yaml", b"a: [\n", "configs/fsdp.yaml: it is not YAML"),
    ("fsdp", "configs/fsdp.yaml", b"a: 2001-99-99\n", "configs/fsdp.yaml: it is not YAML"),
    ("fsdp", "configs/fsdp.yaml", b"distributed_type: \xff\n", "configs/fsdp.yaml: it is not UTF-8 text"),
    ("fsdp", "configs/fsdp.yaml", b"[" * 100_000, "configs/fsdp.yaml: it nests too deeply"),
    ("fsdp", "requirements.txt", b"trl==1.16.0\n\xff\n", "requirements.txt: it is not UTF-8 text"),
    ("fsdp", "registry/entry.schema.json", b'{"type": 5}', "registry/entry.schema.json is not a schema"),
    ("fsdp", "registry/entry.schema.json", b"5", "registry/entry.schema.json holds no keys"),
    ("fsdp", "prepare_data.py", b"def (", "prepare_data.py: "),
]


@pytest.mark.parametrize(("recipe", "file", "content", "words"), BROKEN_FILES)
def test_a_file_that_cannot_be_read_fails_by_its_name_while_the_other_checks_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, file: str, content: bytes, words: str
) -> None:
    """The frameworks themselves are left out: they take long, and each looks at one file in a process of its own."""
    bundle = copy_of(recipe, tmp_path)
    (bundle.root / file).write_bytes(content)
    monkeypatch.setattr(frameworks, "answer", lambda *arguments: [])
    report = VerifyReport("static")
    for check in STATIC_CHECKS:
        check(bundle, report)
    failed = [found for found in report.checks if not found.ok]
    assert any(words in found.detail for found in failed), failed
    assert all(Path(file).name in found.name + found.detail for found in failed), failed
    assert "train.py builds its trainer configuration" in [found.name for found in report.checks]
