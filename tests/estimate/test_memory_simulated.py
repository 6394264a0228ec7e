"""Peaks of the real modules run on fake tensors (2026-11: torch 2.13, transformers 5.23, TRL 1.16, PEFT 0.21).

`recipec.simulate` can make the rows of TRL's loss again, as benchmarks/memory_grid.py does for hundreds of others;
those of transformers' own loss were simulated once, by the same method, and keep the formula true for runs of other
trainers.
"""

from __future__ import annotations

import pytest
from estimate_shapes import GIB, LLAMA_8B, QWEN_7B, QWEN_HALF_B, layout

from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.models import model
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
    ("TRL qlora", 6.82, LLAMA_8B, layout("qlora"), trl()),
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


def of(name: str) -> Architecture:
    found = model(name)
    assert found
    return found.architecture


QWEN_MOE = {  # Qwen1.5-MoE-A2.7B: an expert that every token passes
    "model_type": "qwen2_moe",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_hidden_layers": 24,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "vocab_size": 151936,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "decoder_sparse_step": 1,
    "hidden_act": "silu",
    "use_sliding_window": False,
}
MOE = architecture_from_config(QWEN_MOE)
HALF_MOE = architecture_from_config(QWEN_MOE | {"decoder_sparse_step": 2})  # every second layer has no experts
EAGER = {"attention": "eager"}
SHAPES = [  # other layers than those of Llama, and how near the formula is
    (
        "Qwen3, norms of queries and keys",
        32.089,
        0.002,
        of("Qwen/Qwen3-4B"),
        layout(batch=2, **NO_CHECKPOINTING),
        trl(),
    ),
    (
        "OLMo 2, norms behind the blocks",
        43.350,
        0.001,
        of("allenai/OLMo-2-1124-7B"),
        layout(batch=2, **NO_CHECKPOINTING),
        trl(),
    ),
    (
        "OLMo 2, trained norms, sharded",
        46.935,
        0.001,
        of("allenai/OLMo-2-1124-7B"),
        layout("full", 2, 8, "fsdp", **NO_CHECKPOINTING),
        trl(lora=None),
    ),
    (
        "OLMo 2, trained norms, in fp32",
        131.963,
        0.003,
        of("allenai/OLMo-2-1124-7B"),
        layout("full", 2, **NO_CHECKPOINTING),
        trl(lora=None),
    ),
    (
        "OLMo 3, trained norms",
        76.348,
        0.001,
        of("allenai/Olmo-3-1025-7B"),
        layout("full", 2, **NO_CHECKPOINTING),
        trl(lora=None, full_weights="bf16"),
    ),
    (
        "Phi-3, fused projections",
        70.983,
        0.001,
        of("microsoft/Phi-3-mini-4k-instruct"),
        layout("full", 2, **NO_CHECKPOINTING),
        trl(lora=None),
    ),
    ("Gemma 2", 43.351, 0.001, of("google/gemma-2-2b"), layout("full", 4, **EAGER), trl(1024, lora=None)),
    (
        "Gemma 2, no checkpointing",
        48.192,
        0.01,
        of("google/gemma-2-2b"),
        layout("full", 2, **NO_CHECKPOINTING, **EAGER),
        trl(1024, lora=None),
    ),
    ("Gemma 2, lora", 26.865, 0.002, of("google/gemma-2-2b"), layout(batch=4, **NO_CHECKPOINTING, **EAGER), trl(1024)),
    ("Gemma 3", 17.150, 0.001, of("google/gemma-3-1b-pt"), layout("full", 4), trl(1024, lora=None)),
    (
        "Gemma 3, no checkpointing",
        38.717,
        0.01,
        of("google/gemma-3-1b-pt"),
        layout("full", 4, **NO_CHECKPOINTING),
        trl(lora=None),
    ),
    ("gpt-oss", 42.958, 0.003, of("openai/gpt-oss-20b"), layout(batch=2, **EAGER), trl()),
    (
        "gpt-oss, trained norms, sharded",
        54.949,
        0.008,
        of("openai/gpt-oss-20b"),
        layout("full", 2, 8, "fsdp", **NO_CHECKPOINTING, **EAGER),
        trl(1024, lora=None),
    ),
    (
        "gpt-oss, no checkpointing",
        56.040,
        0.006,
        of("openai/gpt-oss-20b"),
        layout(batch=2, **NO_CHECKPOINTING, **EAGER),
        trl(1024),
    ),
    ("a shared expert", 222.153, 0.001, MOE, layout("full", 16), trl(lora=None)),
    ("a shared expert, no checkpointing", 216.993, 0.016, MOE, layout("full", 4, **NO_CHECKPOINTING), trl(lora=None)),
    ("a shared expert, lora", 56.873, 0.026, MOE, layout(batch=4, **NO_CHECKPOINTING), trl()),
    ("layers without experts", 120.550, 0.025, HALF_MOE, layout("full", 4), trl(lora=None)),
    ("layers without experts, lora", 17.668, 0.003, HALF_MOE, layout(batch=4), trl()),
    ("layers without experts, qlora", 15.808, 0.001, HALF_MOE, layout("qlora", 4), trl()),
]


@pytest.mark.parametrize("name, simulated_gib, near, architecture, shape, work", SHAPES, ids=[row[0] for row in SHAPES])
def test_peaks_of_other_layers_are_near_the_simulation(name, simulated_gib, near, architecture, shape, work):
    peak = step_memory(architecture, shape, work).peak_allocated_bytes
    assert peak / GIB == pytest.approx(simulated_gib, rel=near)
