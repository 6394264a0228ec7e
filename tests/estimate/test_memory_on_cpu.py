"""What a step takes on a CPU: peaks of the real modules on fake tensors, simulated as `plan --exact` does (2026-11)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tiers import one_in

from recipec.catalog.architecture import Architecture
from recipec.catalog.models import model
from recipec.estimate.memory import step_memory
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Layout, Mesh

MIB = 1 << 20
WIDE = Architecture(
    model_type="llama",
    hidden_size=512,
    num_layers=8,
    num_heads=8,
    num_kv_heads=8,
    head_dim=64,
    intermediate_size=1536,
    vocab_size=4096,
    tie_embeddings=True,
    max_position=512,
    decoder_layer="LlamaDecoderLayer",
)
NARROW = replace(WIDE, hidden_size=256, head_dim=32, intermediate_size=1024)
DROPPED = LoraShape(16, dropout=True)


def shallow(name: str, layers: int) -> Architecture:
    found = model(name)
    assert found is not None
    return replace(found.architecture, num_layers=layers)


QWEN = shallow("Qwen/Qwen2.5-0.5B", 6)
TEACHER = shallow("Qwen/Qwen2.5-1.5B", 4)


def layout(adaptation: str, rows: int, *, checkpointing: bool = False, packing: bool = False) -> Layout:
    return Layout(
        adaptation, "fp32", "single", Mesh(), "none", rows, 1, checkpointing, "sdpa", packing, optimizer="adamw"
    )


def work(tokens: int, **changes) -> Workload:
    return Workload(**{"seq_len_tokens": tokens, "padded": True, "sync_each_batch": True, "on_cpu": True, **changes})


CASES = {  # simulated MiB, architecture, layout, work
    "full": (1271, NARROW, layout("full", 32), work(107)),
    "dropout": (1503, WIDE, layout("lora", 8), work(263, lora=DROPPED)),
    "dpo": (804, NARROW, layout("full", 8), work(121, objective="dpo")),
    "packed": (1329, WIDE, layout("full", 4, packing=True), work(512, objective="continue-pretrain", padded=False)),
    "large vocabulary": (4848, QWEN, layout("full", 2), work(512)),
    "checkpointed": (5236, QWEN, layout("lora", 4, checkpointing=True), work(1024, lora=DROPPED)),
    "two tiles of tokens": (5371, QWEN, layout("lora", 8, checkpointing=True), work(1024, lora=LoraShape(16))),
    "dpo of adapters": (4913, QWEN, layout("lora", 2), work(512, objective="dpo", lora=DROPPED)),
    "kto": (5700, QWEN, layout("full", 4), work(256, objective="kto")),
    "distill": (6809, QWEN, layout("full", 2), work(512, objective="distill", teacher=TEACHER)),
    "reward": (4039, QWEN, layout("full", 2), work(512, objective="reward")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_formula_gives_what_was_simulated(name: str) -> None:
    mib, architecture, of, step = CASES[name]
    assert step_memory(architecture, of, step).peak_allocated_bytes / MIB == pytest.approx(mib, rel=0.015)


@pytest.mark.executes
@pytest.mark.parametrize("name", one_in(3, ["dropout", "large vocabulary", "distill"]))
def test_the_simulation_gives_it_again(name: str) -> None:
    from recipec.simulate.simulate import simulate

    mib, *run = CASES[name]
    assert simulate(*run, full_depth=True).peak_allocated_bytes / MIB == pytest.approx(mib, abs=1)


def test_a_gpu_keeps_its_own() -> None:
    """One tile and a byte for each dropped number."""
    _, architecture, of, step = CASES["checkpointed"]
    on_gpu = step_memory(architecture, of, replace(step, on_cpu=False)).peak_allocated_bytes
    tile = 4 * 4096 * 32768
    assert on_gpu < step_memory(architecture, of, step).peak_allocated_bytes - 4 * tile
