"""General rows that do not suffice: the share that they suffice for can be written into the recipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, with_key, without


@pytest.mark.parametrize(("examples", "suffices"), [(40, True), (300, False), (400_000, False)])
def test_what_is_advised_is_planned_without_a_warning(tmp_path: Path, examples: int, suffices: bool) -> None:
    """`replay = 0.0` is refused, and what is below 1% is hardly seen."""
    data = {"train": "chat.jsonl", "general": "general.jsonl", "examples": examples, "tokens_per_example": 100}
    recipe = with_key(BASES["lora-single"], "data", data)
    (few,) = (found for found in compiled(tmp_path, recipe).diagnostics if found.code == "W0549")
    rows, other = few.help
    shares = re.findall(r"`replay = ([\d.]+)`", other)
    assert rows == "Add general rows." and bool(shares) == suffices
    assert suffices or other.startswith("Leave `general` out under [data]: its rows suffice for 0.")
    changed = with_key(recipe, "data.replay", float(shares[0])) if shares else without(recipe, "data.general")
    then = compiled(tmp_path, changed)
    assert then.plan is not None and "W0549" not in codes(then)
