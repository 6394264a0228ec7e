"""Variables and lines that a recipe puts into the launch script."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from recipec.recipe.launch_script import owner
from recipes import BASE, codes, findings, load

TEMPLATES = Path(__file__).parents[2] / "templates" / "launch"
TAKEN_FROM_THE_ENVIRONMENT = {
    "WAIT",
    "MASTER_ADDR",
    "NODE_RANK",
    "CUDA_VISIBLE_DEVICES",
    "PYTORCH_ALLOC_CONF",
}  # NAME="${NAME:-…}"
SET_BEFORE = {"HF_HUB_DISABLE_TELEMETRY", "TOKENIZERS_PARALLELISM"}  # the recipe's value then counts


def test_names_that_bash_does_not_let_be_set_are_refused() -> None:
    """Every one of this machine's bash."""
    done = subprocess.run(["bash", "-c", "readonly -p; compgen -v"], capture_output=True, text=True, check=True, env={})
    names = set(re.findall(r"^(?:declare -\S+ )?(\w+)(?:=.*)?$", done.stdout, re.MULTILINE))
    assert {"UID", "RANDOM", "BASH_VERSINFO"} <= names
    usual = {"HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "OPTERR", "PATH", "PS4", "SHELL", "TERM"}
    assert {name for name in names if not owner(name)} <= usual


def test_every_variable_of_the_scripts_is_refused() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.sh.j2")))
    text = re.sub(r"\{\{ stage.variable \| name \}\}", "SFT", text)
    names = set(re.findall(r"^\s*(?:export )?([A-Z][A-Z_]*)=(?!\S* python)", text, re.MULTILINE)) - {"DATA_ROOT"}
    assert {"BUNDLE", "QUICK", "SFT_PROCESSES", "SIGNS"} <= names
    assert {name for name in names if not owner(name)} <= TAKEN_FROM_THE_ENVIRONMENT | SET_BEFORE


@pytest.mark.parametrize("name", ["UID", "BASH_ENV", "BUNDLE", "DPO_THREADS", "IFS", "ANSWERS_PORT"])
def test_a_variable_of_bash_or_of_the_script_is_refused(tmp_path: Path, name: str) -> None:
    assert codes(tmp_path, recipe=BASE + f'[launch.env]\n{name} = "5"\n') == ["E0407"]


READ = [
    ["for x in a b; do", "  echo $x", "done"],
    ["cat > env.txt <<EOF", "a 'b", "EOF"],
    ["f() {", "module load cuda || exit 1", "}", "f"],
    ["# only a comment"],
    ["shopt -s extglob", "ls !(outputs)"],
    ["echo it\\'s \\", "all"],
]
UNREAD = {  # -> the entry that is shown, from 0
    ("echo 'a",): 0,
    ("if true; then",): 0,
    ("(",): 0,
    ("true", "|| true"): 1,
    ("x=$(",): 0,
    ("true", "cat <<EOF"): 1,
    ("true", "fi"): 1,
    ("echo a \\",): 0,
    ("make &&",): 0,
    ("}", "{"): 0,
}


@pytest.mark.parametrize("lines", READ, ids=[lines[0] for lines in READ])
def test_lines_are_judged_as_one_text(tmp_path: Path, lines: list[str]) -> None:
    load(tmp_path, recipe=f"{BASE}[launch]\nsetup = {json.dumps(lines)}\n")


@pytest.mark.parametrize(("lines", "shown"), UNREAD.items(), ids=["; ".join(lines) for lines in UNREAD])
def test_lines_that_bash_cannot_read_are_refused(tmp_path: Path, lines: tuple[str, ...], shown: int) -> None:
    entries = "".join(f"  {json.dumps(line)},\n" for line in lines)
    (found,) = findings(tmp_path, recipe=f"{BASE}[launch]\nsetup = [\n{entries}]\n").diagnostics
    assert found.code == "E0206"
    assert found.labels[0].place.span.line == BASE.count("\n") + 3 + shown


def test_checking_lines_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env.sh"))
    (tmp_path / "env.sh").write_text(f": > {started}\n")
    load(tmp_path, recipe=f"{BASE}[launch]\nsetup = {json.dumps([f'touch {started}'])}\n")
    assert not started.exists()
