"""What a generator with a copy of the weights takes: its terms by hand, its share of the GPU, its time."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key

from recipec.estimate.engine import engine_share

GIB = 1 << 30


def written_by(engine: str, tokens: int = 512, model: str = "Qwen/Qwen3-8B") -> Tables:
    recipe = with_key(BASES["grpo"], "alignment.generation", {"engine": engine, "max_new_tokens": tokens})
    return with_key(with_key(recipe, "model.name", model), "hardware.gpu", "h100-sxm")


def stage(folder: Path, recipe: Tables):
    return good(folder, recipe).plan.stages[0]


def test_the_copy_takes_the_models_weights_and_the_cache_of_all_answers(tmp_path: Path) -> None:
    short, long = (stage(tmp_path, written_by("vllm", tokens)) for tokens in (256, 512))
    engines = [each.memory.moments["generation"] for each in (short, long)]
    answers = short.layout.global_batch // short.layout.mesh.data_parallel * short.decisions["updates"].value
    each_token = 2 * 36 * 8 * 128 * 2  # keys and values of 36 layers with 8 heads of 128, in bf16
    assert engines[1] - engines[0] == pytest.approx(answers * 256 * each_token, rel=1e-6)
    share = short.decisions["generator_share"].value
    cache = answers * (256 + short.decisions["max_length"].value) * each_token
    assert share * 79.1 * GIB > 2 * 8.19e9 + cache


def test_train_py_reserves_what_the_plan_counts(tmp_path: Path) -> None:
    done = good(tmp_path, written_by("vllm"))
    share = done.plan.stages[0].decisions["generator_share"].value
    train = texts(done)["train.py"]
    assert f"vllm_gpu_memory_utilization={share}," in train and "use_vllm=True," in train
    assert "vllm==" in texts(done)["requirements.txt"]
    plain = texts(good(tmp_path, written_by("transformers")))
    assert "vllm" not in plain["train.py"] + plain["requirements.txt"] and "merged_weights.py" not in plain


def test_answers_come_sooner_and_every_generation_is_scored(tmp_path: Path) -> None:
    copied, in_place = (stage(tmp_path, written_by(name)).time.terms["generation"] for name in ("vllm", "transformers"))
    assert copied < in_place / 3


def test_the_share_is_rounded_up_to_hundredths() -> None:
    assert engine_share(8 * GIB, 80 * GIB) == 0.1 and engine_share(8.01 * GIB, 80 * GIB) == 0.11


def test_a_quantized_base_is_refused(tmp_path: Path) -> None:
    recipe = with_key(written_by("vllm"), "train.quantization", "nf4")
    found = compiled(tmp_path, recipe).diagnostics
    assert any("BAD-160" in str(finding) for finding in found), found


def test_the_allocator_leaves_the_generator_s_memory_pool_alone(tmp_path: Path) -> None:
    """vLLM's sleep mode refuses expandable segments."""
    copied, in_place = (texts(good(tmp_path, written_by(name)))["launch/local.sh"] for name in ("vllm", "transformers"))
    assert "expandable_segments" in in_place and "expandable_segments" not in copied
