"""Peaks of the real modules run on fake tensors (2026-11: torch 2.13, transformers 5.23, TRL 1.16, PEFT 0.21).

`recipec.simulate` can make the rows of TRL's loss again, as benchmarks/memory_grid.py does for 283 others; those of
transformers' own loss were simulated once, by the same method, and keep the formula true for runs of other trainers.
"""

from __future__ import annotations

import pytest
from estimate_shapes import GIB, LLAMA_8B, QWEN_7B, QWEN_HALF_B, layout

from recipec.estimate.memory import step_memory
from recipec.estimate.workload import LoraShape, Workload

R16 = LoraShape(16)


def hf(seq=2048, lora=R16, **changes) -> Workload:
    """transformers' own loss; fp32 adapters also on a 4-bit base, as the simulated runs had them."""
    return Workload(seq_len_tokens=seq, lora=lora, head="hf", **{"adapters": "fp32" if lora else "auto", **changes})


def trl(seq=2048, lora=R16, **changes) -> Workload:
    return Workload(seq_len_tokens=seq, lora=lora, **changes)


NO_CHECKPOINTING = {"checkpointing": False}
SINGLE_GPU = [  # name, simulated GiB, architecture, layout, work
    ("lora", 18.89, LLAMA_8B, layout(), hf()),
    ("lora, no checkpointing", 31.71, LLAMA_8B, layout(**NO_CHECKPOINTING), hf()),
    ("lora, 4 rows", 29.29, LLAMA_8B, layout(batch=4), hf()),
    ("lora, 4 rows, no checkpointing", 80.34, LLAMA_8B, layout(batch=4, **NO_CHECKPOINTING), hf()),
    ("lora, padding mask", 29.31, LLAMA_8B, layout(batch=4), hf(padded=True)),
    ("lora, pure bf16", 29.06, LLAMA_8B, layout(batch=4), hf(autocast=False, adapters="bf16")),
    ("lora, dropout", 34.06, LLAMA_8B, layout(**NO_CHECKPOINTING), hf(lora=LoraShape(16, dropout=True))),
    ("lora, 32k tokens", 70.91, LLAMA_8B, layout(), hf(32768)),
    ("lora, Qwen 7B", 22.42, QWEN_7B, layout(), hf(4096)),
    ("qlora", 9.25, LLAMA_8B, layout("qlora"), hf()),
    ("qlora, no checkpointing", 62.69, LLAMA_8B, layout("qlora", batch=4, **NO_CHECKPOINTING), hf()),
    ("full, bf16", 17.05, QWEN_HALF_B, layout("full", 4), hf(lora=None, full_weights="bf16")),
    ("full, bf16, 8B", 59.85, LLAMA_8B, layout("full"), hf(lora=None, full_weights="bf16", autocast=False)),
    ("full, fp32", 20.41, QWEN_HALF_B, layout("full", 4), hf(lora=None)),
    ("full, fp32, 1 row", 9.53, QWEN_HALF_B, layout("full"), hf(lora=None)),
    ("full, fp32, no checkpointing", 32.57, QWEN_HALF_B, layout("full", 4, **NO_CHECKPOINTING), hf(lora=None)),
    ("TRL lora", 16.59, LLAMA_8B, layout(), trl()),
    ("TRL lora, 4 rows", 20.06, LLAMA_8B, layout(batch=4), trl()),
    ("TRL qlora", 6.58, LLAMA_8B, layout("qlora"), trl()),
    ("TRL full", 8.38, QWEN_HALF_B, layout("full", 4), trl(lora=None)),
    ("TRL dpo", 17.74, LLAMA_8B, layout(), trl(objective="dpo")),
    ("TRL dpo, no checkpointing", 42.53, LLAMA_8B, layout(**NO_CHECKPOINTING), trl(objective="dpo")),
]
FSDP2 = [  # the units that accelerate 1.15 makes, bf16 reduction, 8 ranks
    ("full", 17.09, LLAMA_8B, layout("full", 1, 8, "fsdp"), hf(lora=None)),
    ("full, 8k tokens", 26.19, LLAMA_8B, layout("full", 1, 8, "fsdp"), hf(8192, lora=None)),
    ("full, no checkpointing", 73.22, LLAMA_8B, layout("full", 4, 8, "fsdp", **NO_CHECKPOINTING), hf(lora=None)),
]


@pytest.mark.parametrize(
    "name, simulated_gib, architecture, shape, work", SINGLE_GPU, ids=[row[0] for row in SINGLE_GPU]
)
def test_single_gpu_peaks_equal_the_simulation(name, simulated_gib, architecture, shape, work):
    peak = step_memory(architecture, shape, work).peak_allocated_bytes
    assert peak / GIB == pytest.approx(simulated_gib, rel=0.005)


@pytest.mark.parametrize("name, simulated_gib, architecture, shape, work", FSDP2, ids=[row[0] for row in FSDP2])
def test_sharded_peaks_equal_the_simulation(name, simulated_gib, architecture, shape, work):
    peak = step_memory(architecture, shape, work).peak_allocated_bytes
    assert peak / GIB == pytest.approx(simulated_gib, rel=0.02)
