"""System prompts that `data.ignore` leaves out are told, unless the recipe states another one or no row has one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, with_key


@pytest.mark.parametrize(
    ("column", "more", "told"),
    [
        ("system", {"ignore": ["system"]}, True),
        ("system_prompt", {"ignore": ["note", "system_prompt"]}, True),
        ("system", {"ignore": ["note"]}, False),
        ("system", {"ignore": ["system"], "system": "Answer briefly."}, False),
        ("note", {"ignore": ["system", "note"]}, False),
    ],
)
def test_ignored_system_prompts_are_told(tmp_path: Path, column: str, more: dict, told: bool) -> None:
    rows = [{"prompt": f"Why {n}?", "completion": f"So {n}.", column: "Be kind."} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(BASES["lora-single"], "data", {"train": "rows.jsonl", "max_length": 64, **more})
    assert ("W0561" in codes(compiled(tmp_path, recipe, only_plan=True))) is told
