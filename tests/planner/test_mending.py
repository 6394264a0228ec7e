"""What an error proposes was planned: applied, the recipe compiles. What is wrong shows in one run."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, toml, with_key

from recipec.compiler import compile_recipe

ERRORS = Path(__file__).parent.parent / "errors"
MENDED = [
    *("E0405", "E0405-bf16", "E0405-experts", "E0405-groups", "E0405-leak", "E0405-recompute", "E0405-save-every"),
    *("E0405-varlen", "W0504", "W0504-packed"),
]
LARGE = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.1-70B-Instruct"},
    "data": {"train": "chat.jsonl", "examples": 20, "tokens_per_example": 300},
    "hardware": {"gpu": "rtx-4090"},
    "train": {"eval_every": 0.2, "save_every": 0.5, "max_steps": 1},
    "budget": {"max_hours": 0.2},
}


def applied(recipe: dict, help: str) -> dict:
    """The recipe after "remove `a.b` and `a.c`: ..." or "set `a.b = 1`: ..."."""
    for part in re.findall("`([^`]+)`", help.partition(": ")[0]):
        key, _, value = part.partition(" = ")
        recipe = with_key(recipe, key, tomllib.loads(f"it = {value}")["it"] if value else None)
    return recipe


@pytest.mark.parametrize("folder", MENDED)
def test_every_change_that_is_proposed_mends(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ERRORS / folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    recipe, code = tomllib.loads((tmp_path / "recipe.toml").read_text()), folder[:5]
    (problem,) = [found for found in compile_recipe(Path("recipe.toml")).diagnostics if found.code == code]
    assert problem.help
    for help in problem.help:
        assert help.startswith(("remove `", "set `"))
        Path("changed.toml").write_text(toml(applied(recipe, help)))
        left = [found.code for found in compile_recipe(Path("changed.toml")).diagnostics]
        assert code not in left and not [each for each in left if each.startswith("E")], help


@pytest.mark.parametrize("variant", ["dora", "pissa", "rslora"])
def test_variants_on_experts_are_mended_by_what_fits(tmp_path: Path, variant: str) -> None:
    recipe = {**LARGE, "model": {"name": "Qwen/Qwen3-30B-A3B"}, "hardware": {"gpu": "h200"}, "budget": {}}
    recipe |= {"data": {**LARGE["data"], "examples": 2000}, "train": {"lora": {"variant": variant}}}
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    assert [help.partition(":")[0] for help in problem.help] == [
        "remove `train.lora.variant`, which is then standard",
        'set `train.lora.targets = "attention"`',
    ]
    for help in problem.help:
        assert not [code for code in codes(compiled(tmp_path, applied(recipe, help))) if code.startswith("E")]


def test_reasons_of_layouts_that_nobody_asked_for_are_left_out(tmp_path: Path) -> None:
    """QLoRA on two GPUs is known to fail under ZeRO-3 and FSDP; the recipe asks for neither."""
    lora = {"lora": {"dropout": 0.1, "variant": "dora"}, "quantization": "nf4"}
    recipe = {**BASES["lora-single"], "hardware": {"gpu": "a100-80gb", "gpus_per_node": 2}, "train": lora}
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    assert [note[note.index("(BAD") + 1 :][:7] for note in problem.notes] == ["BAD-063"]


def test_what_is_wrong_shows_at_once(tmp_path: Path) -> None:
    found = compiled(tmp_path, LARGE)
    assert codes(found) == ["E0402", "E0405", "E0411"]
    over = [help for help in found.diagnostics[0].help if "; over budget: the plan takes" in help]
    assert over and len(over) < len(found.diagnostics[0].help), "the smaller model keeps to it"


def test_what_does_not_fit_either_is_told_with_what_is_refused(tmp_path: Path) -> None:
    recipe = {
        **LARGE,
        "train": {"precision": "bf16", "optimizer": "adamw"},
        "hardware": {"gpu": "v100-32gb"},
        "budget": {},
    }
    assert codes(compiled(tmp_path, with_key(recipe, "data.examples", 2000))) == ["E0405", "E0402"]


def test_what_the_data_show_hides_nothing_of_the_plan(tmp_path: Path) -> None:
    assert codes(compiled(tmp_path, with_key(LARGE, "data.ignore", ["absent"]))) == ["E0401", "E0402", "E0405", "E0411"]


def test_a_missing_price_needs_no_plan(tmp_path: Path) -> None:
    recipe = with_key(with_key(LARGE, "budget.max_cost_usd", 5), "hardware", {"vram_gib": 20})
    assert "E0403" in codes(compiled(tmp_path, recipe))
