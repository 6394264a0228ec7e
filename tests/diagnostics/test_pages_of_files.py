"""The pages of E0001 to E0003 name every kind of file that a recipe names and that they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, with_key

from recipec.diagnostics.codes import explain

FILES = {  # key -> the ending of its file, and what pages call it
    "data.template": (".jinja", "chat template"),
    "model.new_tokens": (".txt", "new tokens"),
    "hardware.measured": (".toml", "measurements"),
    "budget.prices": (".toml", "price table"),
}
MADE: dict[str, Callable[[Path], object]] = {  # code -> what is there in place of the file
    "E0001": lambda path: None,
    "E0002": lambda path: path.mkdir(),
    "E0003": lambda path: path.write_bytes(b"# D\xe4nisch\n"),
}


@pytest.mark.parametrize("key", FILES)
@pytest.mark.parametrize("code", MADE)
def test_a_page_names_the_kind_of_file(tmp_path: Path, code: str, key: str) -> None:
    ending, called = FILES[key]
    MADE[code](tmp_path / f"own{ending}")
    recipe = with_key(BASES["lora-single"], key, f"./own{ending}")
    found = [finding for finding in codes(compiled(tmp_path, recipe)) if finding.startswith("E000")]
    assert code in found
    assert all(called in (explain(each) or "") for each in (code, *found))
