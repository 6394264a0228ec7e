"""launch/local.sh does what it says, with programs that only note how they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from compiling import BASES, good, texts


def launched(folder: Path, base: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the launch script of a base; stdout is one line for every program it starts."""
    script, programs = folder / "bundle" / "launch" / "local.sh", folder / "bin"
    script.parent.mkdir(parents=True)
    script.write_text(texts(good(folder / "recipe", BASES[base]))["launch/local.sh"])
    programs.mkdir()
    for name in ("python", "accelerate"):
        (programs / name).write_text('#!/bin/sh\necho "$@"\n')
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HF_TOKEN": "none"}
    command = ["bash", str(script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("argument", ["--output-dir", "--output-dir=elsewhere", "--resume", "--res=none"])
def test_several_stages_share_no_folder(tmp_path: Path, argument: str) -> None:
    done = launched(tmp_path, "sft-dpo", "--max-steps", "20", argument, "elsewhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "one stage's train.py" in done.stderr


@pytest.mark.parametrize(
    "base, arguments", [("sft-dpo", ["--max-steps", "20"]), ("lora-single", ["--output-dir", "x", "--resume", "none"])]
)
def test_arguments_reach_training(tmp_path: Path, base: str, arguments: list[str]) -> None:
    done = launched(tmp_path, base, *arguments)
    assert done.returncode == 0, done.stderr
    trained = [line for line in done.stdout.splitlines() if "train.py" in line]
    assert trained
    assert all(line.endswith(f"train.py {' '.join(arguments)}") for line in trained)
