"""Where few long rows decide how long rows may be, a shorter data.max_length is a way out of E0402."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.units import duration, usd

RECIPE: dict[str, Any] = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "openai/gpt-oss-20b"},
    "data": {"train": "rows.jsonl"},
    "hardware": {"gpu": "h100", "gpus_per_node": 8},
    "train": {"adaptation": "full"},
}
LONG, MIDDLE, SHORT = 80_000, 12_000, 800  # characters: 20,000, 3,000 and 200 tokens


def written(folder: Path, *lengths: tuple[int, int], name: str = "rows.jsonl", **beside: str) -> None:
    sizes = [size for size, count in lengths for _ in range(count)]
    rows = [{"prompt": f"Why {n}?", "completion": f"{n} ".ljust(size, "x"), **beside} for n, size in enumerate(sizes)]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def ways(folder: Path, recipe: dict[str, Any]) -> tuple[str, ...]:
    (finding,) = [found for found in compiled(folder, recipe).diagnostics if found.code == "E0402"]
    return finding.help


def test_the_shortest_length_that_keeps_the_same_rows_is_named_with_what_it_loses(tmp_path: Path) -> None:
    """At 8,192 tokens the stage would fit as well, with states in 8 bits and without one row more."""
    written(tmp_path, (LONG, 4), (SHORT, 296))
    (line,) = ways(tmp_path, RECIPE)
    assert line.startswith("set `data.max_length = 512`: full fine-tuning, ")
    assert line.endswith("; about 1.3% of the rows are longer: they are left out")
    plan = compiled(tmp_path, with_key(RECIPE, "data.max_length", 512), only_plan=True).plan
    assert plan is not None and f"takes {duration(plan.seconds)} and costs {usd(plan.cost_usd)};" in line
    cut = with_key(RECIPE, "data.overflow", "truncate")
    assert ways(tmp_path, cut)[0].endswith("; about 1.3% of the rows are longer: they are cut")


def test_a_length_that_keeps_more_rows_comes_first(tmp_path: Path) -> None:
    written(tmp_path, (LONG, 4), (MIDDLE, 6), (SHORT, 290))
    (line,) = ways(tmp_path, RECIPE)
    assert line.startswith("set `data.max_length = 4096`: ") and " about 1.3% of the rows " in line


def test_no_length_is_named_that_loses_more_than_preparation_accepts(tmp_path: Path) -> None:
    written(tmp_path, (LONG, 18), (SHORT, 282))
    assert not [line for line in ways(tmp_path, RECIPE) if "max_length" in line]


def test_a_stated_length_is_halved_until_the_stage_fits(tmp_path: Path) -> None:
    written(tmp_path, (LONG, 4), (SHORT, 296))
    (line,) = ways(tmp_path, with_key(RECIPE, "data.max_length", 32768))
    length = int(re.match(r"set `data.max_length = (\d+)`", line)[1])
    assert length > 512
    longer = with_key(RECIPE, "data.max_length", 2 * length)
    assert "E0402" in {found.code for found in compiled(tmp_path, longer).diagnostics}


@pytest.mark.parametrize(("long", "named"), [(10, True), (30, False)])
def test_a_length_is_that_of_every_stage(tmp_path: Path, long: int, named: bool) -> None:
    """Rows of another stage of which many would be lost forbid it."""
    written(tmp_path, (LONG, 4), (SHORT, 296))
    rows = [{"prompt": f"{n}?", "chosen": "a" * (MIDDLE if n < long else 90), "rejected": "b"} for n in range(300)]
    (tmp_path / "preferred.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {
        "data": {"train": "rows.jsonl", "preferences": "preferred.jsonl"},
        "hardware": RECIPE["hardware"] | {"gpu": "h200"},
    }
    recipe = {**RECIPE, **data, "goal": {"task": "align"}, "alignment": {"method": "dpo"}}
    lines = [line for line in ways(tmp_path, recipe) if "max_length" in line]
    lost = [re.findall(r"about ([\d.]+)% of the rows of stage (\w+) are longer", line) for line in lines]
    assert lost == ([[("1.3", "sft"), ("3.3", "dpo")]] if named else [])
    plan = compiled(tmp_path, with_key(recipe, "data.max_length", 512), only_plan=True).plan
    assert plan is not None and (
        not named or f" takes {duration(plan.seconds)} and costs {usd(plan.cost_usd)};" in lines[0]
    )


def test_adapters_give_up_their_dropout_before_weights_train_in_host_memory(tmp_path: Path) -> None:
    """Full fine-tuning fits as well, with all in host memory, on two of eight GPUs and in four times the time."""
    long = {"examples": 2_000, "tokens_per_example": 60_000, "max_length": 114_688}
    recipe = with_key(with_key(BASES["lora-single"], "data", {"train": "chat.jsonl"} | long), "train", {})
    recipe = with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 8})
    plan = compiled(tmp_path, with_key(recipe, "model.name", "ByteDance-Seed/Seed-OSS-36B-Instruct")).plan
    stage, dropout = plan.stages[0], plan.stages[0].decisions["lora_dropout"]
    assert stage.layout.adaptation == "lora" and stage.layout.mesh.world_size == 8 and not stage.layout.offloads
    assert dropout.value == 0.0 and "nothing fits" in dropout.because
