"""Text files that are not UTF-8 are all named at build, also those that no sample looks into."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

WRONG = (33, 57, 101)


@pytest.fixture
def recipe(tmp_path: Path) -> dict:
    (tmp_path / "docs").mkdir()
    for n in range(160):
        text = f"# Page {n}\n\nHow to open the door number {n}, größer.\n"
        (tmp_path / f"docs/doc{n:03}.md").write_text(text, encoding="latin-1" if n in WRONG else "utf-8")
    return with_key(BASES["text"], "data.train", "docs/*.md")


def test_all_files_that_are_not_utf_8_are_named_with_their_commands(tmp_path: Path, recipe: dict) -> None:
    (found,) = [one for one in compiled(tmp_path, recipe).diagnostics if one.code == "E0304"]
    assert "docs/doc033.md" in str(found) and "; 2 other files of docs/*.md, too" in str(found)
    commands = [part for line in found.help for part in re.findall("`((?:iconv|mv) .*?)`", line)]
    assert len([command for command in commands if command.startswith("iconv")]) == len(WRONG)
    for command in commands:
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    assert not [one for one in compiled(tmp_path, recipe).diagnostics if one.code[0] == "E"]
    assert "größer" in (tmp_path / "docs/doc101.md").read_text(encoding="utf-8")


def test_a_file_of_which_nothing_is_taken_may_be_anything(tmp_path: Path, recipe: dict) -> None:
    few = with_key(recipe, "data.train", [{"path": "docs/*.md", "take": 20}])
    assert not [one for one in compiled(tmp_path, few).diagnostics if one.code == "E0304"]
