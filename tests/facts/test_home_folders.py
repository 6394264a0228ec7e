"""Paths that only a shell would expand are refused, with the path to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key


@pytest.mark.parametrize(
    ("key", "written", "code"),
    [("data.train", "~/rows/*.jsonl", "E0303"), ("model.name", "~/models/mine", "E0301")],
)
def test_a_home_folder_is_refused_with_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, written: str, code: str
) -> None:
    monkeypatch.setenv("HOME", "/home/jo")
    found = compiled(tmp_path, with_key(BASES["lora-single"], key, written)).diagnostics
    (finding,) = [finding for finding in found if finding.code == code]
    assert "`~` stands for a home folder in a shell alone" in finding.labels[0].message
    assert written.replace("~", "/home/jo") in finding.help[0]


def test_an_absolute_glob_names_no_folder_of_the_recipe(tmp_path: Path) -> None:
    found = compiled(tmp_path, with_key(BASES["lora-single"], "data.train", "/none/*.jsonl")).diagnostics
    assert [finding.labels[0].message for finding in found if finding.code == "E0303"] == ["no file matches"]
