"""Keywords of the trainer that do harm in some plans alone: refused in these, and passed on in others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, texts, with_key

from recipec.planner.advice.arguments import UNFIT

SHARED = "train.arguments"
MOE = {"model.name": "Qwen/Qwen3-30B-A3B", "hardware.gpus_per_node": 8, "hardware.gpu": "h100"}
SOFT = {"train.adaptation": "prompt-tuning"}
NEOX = {"model.name": "EleutherAI/pythia-1.4b", "data.template": "plain"}
NOISE, SMOOTH, MODE = {"neftune_noise_alpha": 5.0}, {"label_smoothing_factor": 0.1}, {"torch_compile_mode": "default"}
BACKEND, PADDED, COUNTED = (
    {"torch_compile_backend": "inductor"},
    {"pad_to_multiple_of": 8},
    "include_num_input_tokens_seen",
)
SCORED = {"precompute_ref_batch_size": 2}
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    *((base, {}, NOISE, "training mode") for base in ("grpo", "rloo", "ppo", "on-policy-distill")),
    *((base, {}, NOISE, "reference") for base in ("dpo-full", "kto")),
    *(("lora-single", NEOX | SOFT, noise, "GPT-NeoX") for noise in (NOISE, {"neftune_noise_alpha": 0.0})),
    ("dpo-full", {}, SMOOTH, "does not read"),
    ("distill", {}, SMOOTH, "teacher"),
    *((base, {}, SMOOTH, "supervised") for base in ("kto", "orpo", "cpo", "simpo", "reward", "grpo", "rloo", "ppo")),
    ("on-policy-distill", {}, SMOOTH, "supervised"),
    ("lora-single", MOE, SMOOTH, "balanced"),
    ("lora-single", SOFT, SMOOTH, "virtual"),
    *(("lora-single", {"train.compile": off}, asked, "switches") for off in (None, False) for asked in (MODE, BACKEND)),
    (
        "lora-single",
        {
            "train.fp8": True,
            "hardware.gpu": "h100",
            "train.adaptation": "full",
            "hardware.gpus_per_node": 4,
            "model.name": "Qwen/Qwen2.5-0.5B-Instruct",
        },
        PADDED,
        "FP8",
    ),
    ("grpo", {}, {COUNTED: True}, "twice"),
    ("dpo-full", {"alignment.precompute_reference": False}, SCORED, "before step 1"),
    ("grpo", {"alignment.variant": "cispo"}, {"delta": 2.0}, "variant"),
]
TAKEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((base, {}, NOISE) for base in ("lora-single", "text", "pretrain", "distill", "orpo", "cpo", "simpo", "reward")),
    *((base, {}, SMOOTH) for base in ("lora-single", "text", "pretrain")),
    ("lora-single", SOFT, NOISE),
    ("lora-single", MOE, NOISE),
    ("lora-single", {}, {COUNTED: True}),
    ("lora-single", {}, PADDED),
    ("dpo-full", {"alignment.precompute_reference": True}, SCORED),
    ("grpo", {}, {"delta": 2.0}),
    # values that change nothing
    *((base, {}, {"neftune_noise_alpha": 0.0}) for base in ("grpo", "dpo-full")),
    *((base, {}, {"label_smoothing_factor": 0.0}) for base in ("dpo-full", "distill", "kto")),
    *(("grpo", {}, {COUNTED: off}) for off in (False, "no")),
]


def recipe(base: str, keys: dict[str, Any], arguments: dict[str, Any]) -> Any:
    found = BASES[base]
    for key, value in keys.items():
        found = with_key(found, key, value)
    return with_key(found, SHARED, arguments)


def errors(folder: Path, *given: Any) -> list[Any]:
    return [each for each in compiled(folder, recipe(*given)).diagnostics if each.code.startswith("E")]


@pytest.mark.parametrize(("base", "keys", "arguments", "reason"), REFUSED)
def test_a_keyword_that_does_harm_is_refused_with_its_reason(
    tmp_path: Path, base: str, keys: dict[str, Any], arguments: dict[str, Any], reason: str
) -> None:
    (found,) = errors(tmp_path, base, keys, arguments)
    assert found.code == "E0407" and next(iter(arguments)) in found.title
    assert reason in found.labels[0].message


@pytest.mark.parametrize(("base", "keys", "arguments"), TAKEN)
def test_it_is_passed_on_where_it_does_none(
    tmp_path: Path, base: str, keys: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert not errors(tmp_path, base, keys, arguments)


def test_every_row_has_a_refused_case() -> None:
    assert {name for row in UNFIT for name in row.names} == {name for *_, given, _ in REFUSED for name in given}
    assert len({reason for *_, reason in REFUSED}) == len(UNFIT)


@pytest.mark.parametrize("arguments", [MODE, BACKEND])
def test_a_compiled_run_has_its_way_of_compiling(tmp_path: Path, arguments: dict[str, str]) -> None:
    """The plan is that of a compiled run: what is refused of compiling is refused with the keyword as without."""
    asked = {"train.compile": True, "train.adaptation": "full", "train.fp8": True}
    asked |= {"hardware.gpu": "h100", "model.name": "Qwen/Qwen2.5-0.5B-Instruct"}
    found = compiled(tmp_path, recipe("lora-single", asked, arguments))
    (name, value), train = next(iter(arguments.items())), texts(found)["train.py"]
    assert "torch_compile=True," in train and f'{name}="{value}",' in train


def test_what_all_stages_share_is_refused_for_one_and_may_be_given_to_the_other(tmp_path: Path) -> None:
    found = compiled(tmp_path, with_key(BASES["sft-dpo"], SHARED, NOISE)).diagnostics
    (told,) = (each for each in found if each.code.startswith("E"))
    assert told.help == ("remove it", "write it under [train.sft.arguments] alone")
    own = compiled(tmp_path, with_key(BASES["sft-dpo"], "train.sft.arguments", NOISE)).diagnostics
    assert not [each for each in own if each.code.startswith("E")]
