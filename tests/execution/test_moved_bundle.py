"""A bundle that is moved with the model below DATA_ROOT: adapters are loaded on the model that is there now."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import toml
from tiny_models import WORDS, save, tokenizer

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe

pytestmark = pytest.mark.executes
RECIPE: dict[str, Any] = {
    "recipe": {"name": "moved"},
    "goal": {"task": "instruct"},
    "model": {"name": "./models/tiny"},
    "data": {"train": "rows.jsonl", "examples": 60, "tokens_per_example": 12, "max_length": 32},
    "hardware": {"gpu": "cpu", "cpu_cores": 2},
    "train": {"adaptation": "lora", "global_batch_size": 8, "epochs": 1, "learning_rate": 1e-2},
    "evaluate": {"samples": 2, "max_new_tokens": 4},
}
MEASURED = ("before", "after", "merged")


def project(folder: Path) -> None:
    """A recipe, its rows, its model and the bundle that it compiles to."""
    save(folder / "models" / "tiny", 0, model_type="llama", vocab_size=WORDS, hidden_size=32)
    words = tokenizer.__wrapped__()  # its own: trainers of other tests change theirs
    words.backend_tokenizer.model.unk_token = "w5"  # of the text that merge_adapter.py tries
    words.save_pretrained(folder / "models" / "tiny")
    rows = [{"prompt": f"w{3 + n} w7", "completion": f" w{4 + n} w9 w{5 + n}"} for n in range(60)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "recipe.toml").write_text(toml(RECIPE))
    done = compile_recipe(folder / "recipe.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)


def run(python: Path, root: Path, *words: str) -> str:
    """Start a script of the bundle as its launch script does."""
    environment = os.environ | {"DATA_ROOT": str(root), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = str(python)  # nothing stands in for anything: its sitecustomize.py is empty
    command = [str(python / "python"), *words]
    done = subprocess.run(command, cwd=root / "out", env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def results(python: Path, root: Path) -> dict[str, Any]:
    """What is measured of the model before and after training and merged."""
    for when in MEASURED:
        if when == "merged":
            run(python, root, "merge_adapter.py")
        run(python, root, "evaluate.py", when)
    files = {when: root / "out" / "outputs" / "evaluation" / "sft" / f"{when}.json" for when in MEASURED}
    found = {when: json.loads(file.read_text()) for when, file in files.items()}
    return {when: [each["metrics"], each["samples"]] for when, each in found.items()}


def test_adapter_and_base_are_loaded_where_they_are_now(tmp_path: Path, forking_python: Path) -> None:
    (forking_python / "sitecustomize.py").touch()
    old, new = tmp_path / "old", tmp_path / "elsewhere" / "new"
    project(old)
    run(forking_python, old, "prepare_data.py")
    run(forking_python, old, "train.py", "--max-steps", "4")
    card = (old / "out" / "outputs" / "sft" / "README.md").read_text()
    assert card == (old / "out" / "registry" / "model_card.md").read_text(), "TRL's names a model None, PEFT's is empty"
    there = results(forking_python, old)
    assert there["before"] != there["after"]

    new.parent.mkdir()
    shutil.move(old, new)
    outputs = new / "out" / "outputs"
    recorded = json.loads((outputs / "sft" / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert recorded == str(old / "models" / "tiny"), "PEFT writes the absolute path of training"
    save(old / "models" / "tiny", 1, model_type="llama", vocab_size=WORDS, hidden_size=32)  # another model, there now
    for measured in (outputs / "evaluation", outputs / "sft" / "merged"):
        shutil.rmtree(measured)

    assert results(forking_python, new) == there
