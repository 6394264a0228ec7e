"""Paths that name a pipe, a device or links in a circle: there is something, and it is no file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

PIPE, CIRCLE = "is a pipe or a device, not a file", "is a link that leads back to itself"


def make(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null" if kind == "device" else path)


@pytest.mark.parametrize(("kind", "said"), [("pipe", PIPE), ("device", PIPE), ("circle", CIRCLE)])
@pytest.mark.parametrize(
    ("key", "name", "what"),
    [
        ("data.train", "own.jsonl", "`own.jsonl`"),
        ("budget.prices", "own.toml", "the price table `own.toml`"),
        ("hardware.measured", "own.toml", "the file of measurements `own.toml`"),
    ],
)
def test_what_is_no_file_is_named(tmp_path: Path, kind: str, said: str, key: str, name: str, what: str) -> None:
    make(tmp_path / name, kind)
    found = compiled(tmp_path, with_key(BASES["lora-single"], key, name)).diagnostics
    assert [one.title for one in found if one.code[0] == "E"] == [f"{what} {said}"]


def test_a_line_longer_than_a_row_may_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"text": "' + "a" * 5 * 2**20 + '"}\n')
    found = compiled(tmp_path, with_key(BASES["lora-single"], "data.train", "own.jsonl")).diagnostics
    (said,) = [one.labels[0].message for one in found if one.code == "E0304"]
    assert said == "its first line, which is a row, is longer than 4 MiB, the most that a row may have"
