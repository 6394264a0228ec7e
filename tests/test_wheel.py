"""An installed wheel works from any folder: templates, presets, catalog and rule books are inside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECIPE = """\
[recipe]
name = "elsewhere"
extends = "team"

[goal]
task = "instruct"

[data]
train = "rows.jsonl"
"""


def test_a_wheel_builds_a_bundle_far_from_the_repository(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    site, work = tmp_path / "site", tmp_path / "work"
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    wheel = next(tmp_path.glob("recipec-*.whl"))
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    work.mkdir()
    (work / "recipe.toml").write_text(RECIPE)
    (work / "rows.jsonl").write_text("".join(f'{{"prompt": "Hi {n}", "completion": "Hello"}}\n' for n in range(40)))

    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = [sys.executable, "-P", "-c", "import recipec; print(recipec.__file__)"]
    installed = subprocess.run(where, cwd=work, env=environment, check=True, capture_output=True, text=True)
    assert installed.stdout.startswith(str(site))
    build = [sys.executable, "-P", "-m", "recipec", "build", "recipe.toml", "-o", "out"]
    subprocess.run(build, cwd=work, env=environment, check=True)

    explain = [sys.executable, "-P", "-m", "recipec", "explain", "001"]
    page = subprocess.run(explain, cwd=work, env=environment, check=True, capture_output=True, encoding="utf-8").stdout

    assert page.startswith("# Rule book 001: ")
    assert "Mistral-7B-Instruct-v0.3" in (work / "out" / "train.py").read_text()
