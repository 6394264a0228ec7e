"""Lines of JSON lines that hold no object: all that are read are counted, and a command keeps the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_published import SFT, compiled, passes, ran

CUT = '{"prompt": "Why?", "completion": '


def _told(folder: Path, *broken: str, readable: bool = True) -> tuple[str, tuple[str, ...]]:
    """What is said of a file with these lines behind others, and how to go on."""
    good = [json.dumps({"prompt": f"Why {n}?", "completion": "Só."}, ensure_ascii=False) for n in range(300)]
    (folder / "rows.jsonl").write_text("\n".join([*(good if readable else ()), *broken, ""]), encoding="utf-8")
    (error,) = [found for found in compiled(folder, SFT).diagnostics if found.code.startswith("E")]
    return error.labels[0].message, error.help


@pytest.mark.parametrize("broken", [CUT, "3", "[1]", '"text"', '{"prompt": "a\tb"}', '{"a": ' + "9" * 5000 + "}"])
def test_the_other_lines_are_kept_as_they_are(tmp_path: Path, broken: str) -> None:
    said, (line,) = _told(tmp_path, broken)
    assert said.endswith("; 1 of 301 lines read is broken")
    ran(tmp_path, line)
    assert len(passes(tmp_path, SFT)) == 300
    assert (tmp_path / "rows.jsonl").read_bytes().startswith((tmp_path / "rows.new.jsonl").read_bytes())


def test_broken_lines_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    assert _told(tmp_path, CUT, CUT)[0].endswith("; 2 of 302 lines read are broken, also line 302")
    many = _told(tmp_path, *[CUT] * 9)[0]
    assert many.endswith("; 9 of 309 lines read are broken, also lines 302, 303, 304, 305, 306, …")


def test_no_command_is_offered_that_keeps_a_broken_line_or_none(tmp_path: Path) -> None:
    assert _told(tmp_path, '{"prompt": "a", "prompt": "b"}')[1] == ("correct it",)
    assert "lines read" not in _told(tmp_path, "{", '"prompt": "a"', "}", readable=False)[0]
