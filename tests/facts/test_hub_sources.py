"""Data sets of the Hub, which recipec does not read: what the recipe says of them, and what is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key


def found_in(folder: Path, source: dict[str, Any], **data: Any) -> dict[str, list[str]]:
    """Code -> the helps of each finding."""
    tables = with_key(BASES["lora-single"], "data", {"train": source, **data})
    found = compiled(folder, tables).diagnostics
    return {finding.code: list(finding.help) for finding in found}


@pytest.mark.parametrize(("ignore", "told"), [({}, True), ({"ignore": []}, False), ({"ignore": ["id"]}, False)])
def test_an_empty_list_of_ignored_columns_says_that_none_is_left_out(
    tmp_path: Path, ignore: dict[str, list[str]], told: bool
) -> None:
    stated = {"format": "chat", "examples": 2_000, "tokens_per_example": 500}
    found = found_in(tmp_path, {"hub": "org/rows"}, **stated, **ignore)
    assert ("W0518" in found) is told
    assert "E0207" not in found


def test_a_source_whose_format_is_unknown_is_told_with_the_whole_line(tmp_path: Path) -> None:
    line = '{ hub = "org/rows", split = "train", take = 500, format = "chat" }'
    found = found_in(tmp_path, {"hub": "org/rows", "take": 500})
    assert line in found["E0305"][0]
