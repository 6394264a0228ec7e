"""The same recipe is the same bytes: whatever the hash seed, the folder, the working directory or the machine."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import BASES, compiled, good, texts, toml, write_data
from tiers import one_in

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "trl", "peft", "accelerate", "deepspeed", "jsonschema", "yaml", "rich", "asyncio")
COMPILE = """
import hashlib, json, sys
from pathlib import Path
from recipec.compiler import compile_recipe
found = compile_recipe(Path(sys.argv[1]))
digests = {file.path: hashlib.sha256((file.text + str(file.lines)).encode()).hexdigest() for file in found.files}
digests["plan.json"] = hashlib.sha256(found.plan_json).hexdigest()
print(json.dumps([digests, sorted(sys.modules)]))
"""


@pytest.mark.parametrize("name", one_in(2, ["sft-dpo", "zero3-offload"]))
def test_seed_folder_and_working_directory_do_not_matter(tmp_path: Path, name: str) -> None:
    one = _in_a_process(tmp_path / "one", name, cwd=tmp_path / "one", recipe="recipe.toml", seed="0")
    other = _in_a_process(tmp_path / "two [*] é", name, cwd=tmp_path, recipe="two [*] é/recipe.toml", seed="4711")
    assert one[0] == other[0]


def test_compiling_loads_no_framework(tmp_path: Path) -> None:
    _, modules = _in_a_process(tmp_path, "sft-dpo", cwd=tmp_path, recipe="recipe.toml", seed="0")
    assert not [module for module in modules if module.split(".")[0] in HEAVY]


@pytest.mark.parametrize("name", BASES)
def test_nothing_of_the_machine_is_in_the_files(tmp_path: Path, name: str) -> None:
    found = good(tmp_path, BASES[name])
    for path, text in {**texts(found), "plan.json": found.plan_json.decode()}.items():
        for word in (str(tmp_path), str(ROOT), str(Path.home()) + "/", socket.gethostname()):
            assert word not in text, f"{path} holds {word}"
        assert not re.search(rf"\b{re.escape(getpass.getuser())}@", text)
        assert not re.search(r"\d\d:\d\d:\d\d", text), f"{path} holds a time"


def test_compiling_only_reads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_data(tmp_path)
    (tmp_path / "recipe.toml").write_text(toml(BASES["sft-dpo"]))
    before = _listing(tmp_path)
    compiled(tmp_path, BASES["sft-dpo"])
    os.utime(tmp_path / "recipe.toml", ns=(0, 0))
    assert [path for path, *_ in _listing(tmp_path)] == [path for path, *_ in before]
    assert capfd.readouterr() == ("", "")


def _in_a_process(folder: Path, name: str, *, cwd: Path, recipe: str, seed: str) -> tuple[dict[str, str], list[str]]:
    """The digests of the files and the modules that are loaded at the end."""
    write_data(folder)
    (folder / "recipe.toml").write_text(toml(BASES[name]))
    env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", COMPILE, recipe]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=True)
    digests, modules = json.loads(done.stdout)
    return digests, modules


def _listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_size) for path in folder.rglob("*"))
