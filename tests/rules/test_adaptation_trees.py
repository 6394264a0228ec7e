"""The three trees of rule book 001, each branch by name, with the thresholds below, at and above."""

from __future__ import annotations

import pytest

from recipec.axes import ADAPTATIONS
from recipec.rules.adaptation import adaptation_preferences, double_quantization, wished
from recipec.rules.goal import alignment_method, stages

LORA, QLORA, INT8, FULL, IA3, PROMPT = "lora", "qlora", "lora-int8", "full", "ia3", "prompt-tuning"
PLAIN = {
    "stage": "sft",
    "priority": None,
    "new_domain": False,
    "first_time": True,
    "examples": 5_000,
    "params": 50_000_000_000,
    "total_vram_gb": 24,
    "gpu_is_cpu": False,
}


def first(**facts):
    """Return the adaptation that is tried first."""
    choice = adaptation_preferences(*{**PLAIN, **facts}.values())
    assert set(choice.value) == {LORA, QLORA, FULL}, "memory orders the list and never shortens it"
    return choice.value[0]


QUALITY = {"priority": "quality", "examples": 20_000}
BRANCHES = {
    # Tree 1: first time YES -> Available compute?
    "first time, < 16 GB: QLoRA": ({"total_vram_gb": 12}, QLORA),
    "first time, 16-48 GB: LoRA": ({**QUALITY, "total_vram_gb": 24}, LORA),
    "first time, 48-160 GB: full, single node": ({**QUALITY, "total_vram_gb": 80}, FULL),
    "first time, > 160 GB: full, distributed": ({**QUALITY, "total_vram_gb": 640}, FULL),
    # Tree 1: first time NO -> Fine-tuning or continued pre-training?
    "again, < 16 GB: the data decide": ({"first_time": False, "total_vram_gb": 12}, LORA),
    "again, task adaptation < 100K: LoRA": ({"first_time": False, "examples": 99_999, "total_vram_gb": 640}, LORA),
    "again, quality without memory of 4 times the model: LoRA": (
        {**QUALITY, "first_time": False, "total_vram_gb": 80},
        LORA,
    ),
    "003: memory of 4 times the model and the most quality: full": (
        {**QUALITY, "first_time": False, "params": 8_000_000_000, "total_vram_gb": 80},
        FULL,
    ),
    "again, domain shift > 100K: full": ({"first_time": False, "examples": 100_001, "new_domain": True}, FULL),
    "again, new knowledge: full": ({"first_time": False, "stage": "continue-pretrain"}, FULL),
    "again, align: LoRA": ({"first_time": False, "stage": "dpo"}, LORA),
    # Tree 3: Data size for instruction tuning?
    "< 1K: LoRA": ({"examples": 999, "priority": "quality", "total_vram_gb": 640}, LORA),
    "1K-10K: LoRA": ({"examples": 9_999, "priority": "quality", "total_vram_gb": 640}, LORA),
    "10K-100K: LoRA": ({"examples": 50_000, "total_vram_gb": 640}, LORA),
    "10K-100K: or full": ({"examples": 50_000, "priority": "quality", "total_vram_gb": 640}, FULL),
    "> 100K: full preferred": ({"examples": 100_001}, FULL),
    # Holes of the trees
    "task with > 100K": ({"examples": 200_000, "new_domain": False}, FULL),
    "domain shift with < 10K": ({"examples": 9_999, "new_domain": True, "total_vram_gb": 640}, LORA),
    "domain shift with 10K-100K and room": ({"examples": 10_000, "new_domain": True, "total_vram_gb": 48}, FULL),
    "domain shift with 10K-100K, no room": ({"examples": 10_000, "new_domain": True, "total_vram_gb": 47.9}, LORA),
    "> 100K with < 16 GB, first": ({"examples": 200_000, "total_vram_gb": 12}, QLORA),
    "> 100K with < 16 GB, again": ({"examples": 200_000, "total_vram_gb": 12, "first_time": False}, FULL),
    "align with < 16 GB, first": ({"stage": "dpo", "total_vram_gb": 12}, QLORA),
    "a CPU has no GPU memory": ({"total_vram_gb": 8, "gpu_is_cpu": True}, LORA),
    # priority reorders what is acceptable
    "priority memory": ({"priority": "memory", "examples": 200_000, "total_vram_gb": 640}, QLORA),
    "priority speed": ({"priority": "speed", "examples": 200_000, "total_vram_gb": 640}, LORA),
    "priority speed, < 16 GB": ({"priority": "speed", "total_vram_gb": 12}, LORA),
    "priority speed, continued": ({"priority": "speed", "stage": "continue-pretrain"}, LORA),
    "003: start with full fine-tune": ({"total_vram_gb": 640}, LORA),
}


@pytest.mark.parametrize(("facts", "expected"), BRANCHES.values(), ids=BRANCHES.keys())
def test_branch(facts, expected):
    assert first(**facts) == expected


@pytest.mark.parametrize("priority", [None, "quality", "speed", "memory"])
def test_random_weights_are_all_trained(priority):
    choice = adaptation_preferences(*{**PLAIN, "stage": "pretrain", "priority": priority}.values())
    assert choice.value == (FULL,)
    assert choice.because == "training starts from random weights, so every weight is trained"


@pytest.mark.parametrize(
    ("threshold", "fixed", "below", "at", "above"),
    [
        (("total_vram_gb", 15.9, 16, 16.1), {}, QLORA, LORA, LORA),
        (("total_vram_gb", 47.9, 48, 48.1), QUALITY, LORA, FULL, FULL),
        (("total_vram_gb", 159.9, 160, 160.1), QUALITY, FULL, FULL, FULL),
        (("total_vram_gb", 63.9, 64, 64.1), {**QUALITY, "first_time": False, "params": 8e9}, LORA, FULL, FULL),
        (("total_vram_gb", 23.9, 24, 24.1), {}, LORA, LORA, LORA),  # 003's QLoRA limit: not followed, see ADPT-001
        (("total_vram_gb", 79.9, 80, 80.1), {}, LORA, LORA, LORA),  # 003's upper LoRA limit: LoRA stays the default
        (("examples", 999, 1_000, 1_001), {"priority": "quality", "total_vram_gb": 80}, LORA, LORA, LORA),
        (("examples", 9_999, 10_000, 10_001), {"priority": "quality", "total_vram_gb": 80}, LORA, FULL, FULL),
        (("examples", 99_999, 100_000, 100_001), {}, LORA, LORA, FULL),
    ],
)
def test_threshold_below_at_above(threshold, fixed, below, at, above):
    name, *values = threshold
    assert [first(**{**fixed, name: value}) for value in values] == [below, at, above]


def test_every_entry_has_its_own_reason():
    assert len({row.because for row in ADAPTATIONS.values()}) == len(ADAPTATIONS)
    assert {name: "a quantized base" in row.why_base for name, row in ADAPTATIONS.items()} == {
        name: row.quantized for name, row in ADAPTATIONS.items()
    }


@pytest.mark.parametrize(
    ("adaptation", "quantization", "expected"),
    [
        (None, None, (LORA, QLORA, FULL)),
        ("lora", None, (LORA, QLORA)),
        ("lora", "nf4", (QLORA,)),
        (None, "nf4", (QLORA,)),
        (None, "none", (LORA, FULL)),
        ("full", None, (FULL,)),
        ("full", "nf4", ()),
        ("ia3", None, (IA3,)),
        ("ia3", "nf4", ()),
        ("prompt-tuning", None, (PROMPT,)),
        ("lora", "int8", (INT8,)),
        (None, "int8", (INT8,)),
    ],
)
def test_a_fixed_value_keeps_what_agrees_with_it(adaptation, quantization, expected):
    able = (IA3, LORA, QLORA, INT8, PROMPT, FULL)
    assert wished((LORA, QLORA, FULL), able, adaptation, quantization) == expected


def test_only_a_4_bit_base_is_double_quantised():
    assert double_quantization("nf4").value is True
    assert double_quantization("int8").value is False
    assert double_quantization("none").value is False


ALIGNMENT = {  # Tree 2: Alignment method?
    "preferences, KL low: DPO": (("align", "preference", "low"), "dpo"),
    "preferences, KL high: PPO": (("align", "preference", "high"), "ppo"),
    "no preferences: SFT only": (("align", None, "low"), "none"),
    "no preferences, KL high: SFT only": (("align", None, "high"), "none"),
    "rows that train no reward model, KL high": (("align", "unpaired-preference", "high"), "kto"),
    "not asked for": (("instruct", None, "low"), "none"),
}


@pytest.mark.parametrize(("facts", "expected"), ALIGNMENT.values(), ids=ALIGNMENT.keys())
def test_alignment_branch(facts, expected):
    assert alignment_method(*facts).value == expected


@pytest.mark.parametrize(
    ("task", "train_format", "preference_format", "method", "has_reward", "expected"),
    [
        ("instruct", "text", None, "none", False, ("sft",)),
        ("instruct", "instruction", None, "none", False, ("sft",)),
        ("instruct", "chat", None, "none", False, ("sft",)),
        ("instruct", "prompt-completion", None, "none", False, ("sft",)),
        ("continue-pretrain", "text", None, "none", False, ("continue-pretrain",)),
        ("pretrain", "text", None, "none", False, ("pretrain",)),
        ("align", None, "preference", "dpo", False, ("dpo",)),
        ("align", "chat", "preference", "dpo", False, ("sft", "dpo")),
        ("align", "chat", None, "none", False, ("sft",)),
        ("align", "preference", "preference", "dpo", False, ("dpo",)),
        ("align", "preference", "preference", "none", False, ()),
        ("reward", None, "preference", "none", False, ("reward",)),
        ("reward", "preference", "preference", "none", False, ("reward",)),
        ("reward", "chat", None, "none", False, ()),
        ("align", "chat", "preference", "ppo", False, ("sft", "reward", "ppo")),
        ("align", None, "preference", "ppo", False, ("reward", "ppo")),
        ("align", "chat", None, "ppo", True, ("sft", "ppo")),
    ],
)
def test_stages(task, train_format, preference_format, method, has_reward, expected):
    given = [*["train"] * bool(train_format), *["preferences"] * (preference_format not in (None, train_format))]
    assert stages(task, train_format, preference_format, method, has_reward, given).value == expected


@pytest.mark.parametrize(
    ("task", "train_format", "method", "given", "expected"),
    [
        ("instruct", "chat", "none", ("domain_text", "train"), ("continue-pretrain", "sft")),
        ("instruct", "text", "none", ("domain_text", "train"), ("continue-pretrain", "sft")),
        ("continue-pretrain", None, "none", ("domain_text",), ("continue-pretrain",)),
        ("align", "chat", "dpo", ("domain_text", "train", "preferences"), ("continue-pretrain", "sft", "dpo")),
        ("align", None, "dpo", ("domain_text", "preferences"), ("continue-pretrain", "dpo")),
        ("align", None, "orpo", ("domain_text", "preferences"), ("continue-pretrain", "orpo")),
        ("align", "chat", "none", ("domain_text", "train"), ("continue-pretrain", "sft")),
    ],
)
def test_the_text_of_a_domain_is_learned_first(task, train_format, method, given, expected):
    assert stages(task, train_format, "preference", method, False, given).value == expected


def test_a_judge_learns_beside_the_domain():
    given = ("domain_text", "train", "preferences")
    names = stages("align", "chat", "preference", "ppo", False, given).value
    assert names == ("continue-pretrain", "sft", "reward", "ppo")
