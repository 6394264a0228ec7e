"""README.md doubts its figures where `recipec plan` does, and in the same words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, texts, with_key

from recipec.cli.plan import plan_text
from recipec.rules.reservations import not_counted

MIXTURE = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-30B-A3B-Instruct-2507")
TIGHT = {"gpu": "rtx-4090", "gpus_per_node": 4}
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a mixture of experts": (
        with_key(MIXTURE, "hardware", {"gpu": "h200", "gpus_per_node": 8}),
        ["of a step, measured over predicted: not known, .*; the few runs of mixtures of experts", "assumes .* cores"],
    ),
    "little memory is left": (
        with_key(with_key(MIXTURE, "model.name", "meta-llama/Llama-3.3-70B-Instruct"), "hardware", TIGHT),
        ["only .* of the usable memory is left: a screen", r"measured over predicted: -\d+% to \+\d+% \("],
    ),
    "a CPU": (BASES["cpu"], ["measured over predicted: "]),
    "two stages": (BASES["sft-dpo"], ["not counted: installing packages, "]),
}
DOUBTS = re.compile(
    r"^ +(?:memory +|time +|rates +)?((?:of a step, )?measured over predicted: .*|only .* is left: .*|assumes .*"
    r"|not counted: .*|assumed, not told .*|.*accuracy of these.*)$",
    re.MULTILINE,
)


@pytest.mark.parametrize("case", CASES)
def test_the_readme_has_every_reservation_of_the_plan(tmp_path: Path, case: str) -> None:
    recipe, expected = CASES[case]
    done = good(tmp_path, recipe)
    said = [re.sub(r"^assumes +", "assumes ", line) for line in DOUBTS.findall(plan_text(json.loads(done.plan_json)))]
    assert all(any(re.match(pattern, line) for line in said) for pattern in expected), said
    readme = texts(done)["README.md"].replace("\\", "")
    assert [line for line in said if line.replace("\\", "") not in readme] == []


@pytest.mark.parametrize(("part", "told"), [("training steps", True), ("failures", False)])
def test_what_failures_repeat_is_left_out_or_counted(part: str, told: bool) -> None:
    assert ("what a failure repeats" in not_counted({"run": [{"part": part}]})) is told
