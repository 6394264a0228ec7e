"""Layers of DeepSpeed-MoE as a bundle has them: what they compute, keep and write, with experts on one rank or two."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import texts

from recipec.catalog.configs import architecture_from_config
from recipec.compiler import Compilation, compile_recipe
from recipec.estimate.codepath import code_path
from recipec.estimate.dispatched import dispatched, padded_params, params_elsewhere
from recipec.estimate.memory import step_memory
from recipec.estimate.workload import Workload
from recipec.layout import Layout, Mesh
from recipec.verify.sandbox import free_port

SCRIPT = Path(__file__).parent / "dispatched_experts.py"
RECIPE = """
[recipe]
name = "experts"
[goal]
task = "pretrain"
[model]
name = "MODEL"
[data]
train = "text.jsonl"
examples = 200_000
[hardware]
gpu = "h200"
gpus_per_node = 8
[train]
loop = "deepspeed"
MORE
"""
CONFIG = {
    "model_type": "qwen3_moe",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 96,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "norm_topk_prob": True,
    "max_position_embeddings": 64,
}
WORK = Workload(objective="pretrain", head="hf", capacity_factor=1.25)


def compiled(folder: Path, more: str = "expert_parallel = 8", model: str = "Qwen/Qwen3-30B-A3B-Base") -> Compilation:
    rows = [
        json.dumps({"text": f"The boat number {number} lifts the drum, and the lamp opens."}) for number in range(80)
    ]
    (folder / "text.jsonl").write_text("\n".join(rows))
    (folder / "recipe.toml").write_text(RECIPE.replace("MORE", more).replace("MODEL", model))
    return compile_recipe(folder / "recipe.toml")


def layout(ranks: int, precision: str = "fp32") -> Layout:
    mesh = Mesh(shard=8, expert=ranks)
    return Layout("full", precision, "zero1", mesh, "none", 2, 2, False, "sdpa", True, "adamw")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What two ranks found with the emitted file."""
    folder = tmp_path_factory.mktemp("experts")
    (folder / "experts.py").write_text(texts(compiled(folder))["experts.py"])
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}")
    command = [*launcher, str(SCRIPT), str(folder), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads((folder / "found.json").read_text())


@pytest.mark.executes
def test_with_room_for_all_tokens_transformers_computes_the_same(found: dict) -> None:
    for ranks in ("1", "2"):
        assert found[ranks]["before"] < 1e-5 and found[ranks]["after"] < 1e-5


@pytest.mark.executes
def test_the_ranks_that_share_experts_change_nothing(found: dict) -> None:
    for alone, shared in zip(found["1"]["steps"], found["2"]["steps"], strict=True):
        assert shared == pytest.approx(alone, rel=1e-4)


@pytest.mark.executes
def test_the_balance_loss_spreads_the_load(found: dict) -> None:
    (_, even), (_, uneven) = found["evened"]["with"], found["evened"]["without"]
    assert even < 1.4 and even < uneven - 0.1


@pytest.mark.executes
@pytest.mark.parametrize("per_token", ["1", "2", "3"])
def test_what_is_dropped_is_what_is_above_the_room(found: dict, per_token: str) -> None:
    for told, above in found["dropped"][per_token]:
        assert told == above > 0


@pytest.mark.executes
def test_what_a_layer_keeps_is_what_the_estimate_counts(found: dict) -> None:
    saved, _, _ = dispatched(architecture_from_config(CONFIG), code_path(layout(1), WORK))
    for ranks in ("1", "2"):
        assert found[ranks]["kept"] == pytest.approx(saved, rel=0.03)


def test_experts_of_other_ranks_are_neither_held_nor_made_twice() -> None:
    shape = architecture_from_config(CONFIG)
    experts = 2 * 4 * 3 * 32 * 48
    assert params_elsewhere(shape, Mesh(shard=8, expert=4)) == experts * 3 // 4
    alone, shared = (step_memory(shape, layout(ranks), WORK).terms for ranks in (1, 4))
    assert alone["weights"] - shared["weights"] == 4 * experts * 3 // 4
    assert alone["optimizer_states"] == shared["optimizer_states"]


def test_empty_slots_are_multiplied_too() -> None:
    shape = architecture_from_config(CONFIG)
    assert padded_params(shape, 1.5) == 0.5 * 2 * 3 * 32 * 48 * 2
    assert padded_params(shape, 0.0) == 0


def test_the_recipe_s_numbers_are_in_the_file(tmp_path: Path) -> None:
    own = "expert_parallel = 4\nexperts = { capacity_factor = 1.5, eval_capacity_factor = 3.0, min_capacity = 8, "
    bundle = texts(compiled(tmp_path, own + "balance_loss = 0.02 }"))
    for line in ("RANKS = 4 ", "CAPACITY_FACTOR = 1.5 ", "EVAL_CAPACITY_FACTOR = 3.0 ", "MIN_CAPACITY = 8 "):
        assert f"\n{line}" in bundle["experts.py"]
    assert "\nBALANCE_LOSS = 0.02 " in bundle["experts.py"]
    assert "top2_2nd_expert_sampling=False" in bundle["experts.py"]
    assert '"stage": 1' in bundle["configs/deepspeed.json"] or '"stage": 2' in bundle["configs/deepspeed.json"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('strategy = "zero3"', "BAD-211"),
        ("expert_parallel = 3", "E0405"),
        ('precision = "fp16"', "BAD-215"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(tmp_path: Path, more: str, told: str) -> None:
    done = compiled(tmp_path, more)
    assert done.lock is None and told in str(done.diagnostics)


def test_a_capacity_without_such_layers_is_refused(tmp_path: Path) -> None:
    done = compiled(tmp_path, "experts = { capacity_factor = 2.0 }", model="EleutherAI/pythia-160m")
    assert done.lock is None and "BAD-210" in str(done.diagnostics)
