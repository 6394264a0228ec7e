"""A layer of evaluate.py's forward pass takes what real modules take without gradients (peaks on a CPU, 2026-11)."""

from __future__ import annotations

from typing import Any

import pytest
from estimate_shapes import LLAMA_8B, QWEN_HALF_B, layout
from msgspec.structs import replace
from tiers import one_in

from recipec.catalog.architecture import Architecture
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.models import model
from recipec.estimate.evaluation import batch_bytes
from recipec.estimate.running import running_bytes, scoring_path
from recipec.estimate.workload import ALL_LINEAR, LoraShape, Workload

TOKENS = 512
R8 = LoraShape(8)
SHAPE = {
    "num_hidden_layers": 2,
    "vocab_size": 64,
    "hidden_size": 512,
    "intermediate_size": 1792,
    "pad_token_id": 0,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 2048,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA = {**SHAPE, "model_type": "llama"}
ONE_PROJECTION = {**SHAPE, "model_type": "phi3"}
EXPERTS = {
    **SHAPE,
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 192,
    "num_experts": 32,
    "num_experts_per_tok": 8,
}
ALL_RUN = {
    **SHAPE,
    "model_type": "llama4_text",
    "intermediate_size": 819,
    "intermediate_size_mlp": 1638,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
}
HYBRID = {
    **SHAPE,
    "model_type": "qwen3_5_text",
    "full_attention_interval": 2,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
}
PEAKS = {  # bytes per token at the peak of the layers, config, adapters
    "dense": (15_112, LLAMA, None),
    "dense with adapters in fp32": (27_912, LLAMA, R8),
    "one projection": (18_696, ONE_PROJECTION, None),
    "one projection with adapters": (42_248, ONE_PROJECTION, R8),
    "experts": (37_512, EXPERTS, None),
    "experts that all run": (126_664, ALL_RUN, None),
    "hybrid": (32_512, HYBRID, None),
}


def predicted(shape: Architecture, lora: LoraShape | None, tokens: int = TOKENS) -> float:
    path = scoring_path(layout("lora" if lora else "full"), Workload(lora=lora))
    return running_bytes(shape, lora, path, tokens) / tokens


@pytest.mark.parametrize("name", PEAKS)
def test_the_law_gives_the_measured_peak(name: str) -> None:
    peak, config, lora = PEAKS[name]
    assert predicted(architecture_from_config(config), lora) == pytest.approx(peak, rel=0.03)


@pytest.mark.executes
@pytest.mark.parametrize("name", one_in(3, ["dense with adapters in fp32", "experts", "experts that all run"]))
def test_the_peak_is_measured_again(name: str) -> None:
    peak, config, lora = PEAKS[name]
    assert measured(config, lora) == pytest.approx(peak, rel=0.01)


def measured(config: dict[str, Any], lora: LoraShape | None) -> float:
    """Bytes per token of the layers of a real model, beside its weights."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    from recipec.simulate.meter import Meter

    given = {key: value for key, value in config.items() if key != "model_type"}
    with torch.no_grad(), Meter() as meter:
        whole = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(config["model_type"], **given), dtype=torch.bfloat16
        ).eval()
        layers = whole.model
        if lora:
            get_peft_model(whole, LoraConfig(r=lora.rank, target_modules=ALL_LINEAR, task_type="CAUSAL_LM"))
        tokens = torch.arange(TOKENS)[None] % 64
        layers(input_ids=tokens, use_cache=False)  # what is made once
        meter.site, before = "scoring", meter.total
        layers(input_ids=tokens, use_cache=False)
    return (meter.peaks["scoring"].total - before) / TOKENS


def test_weights_that_are_built_from_adapters_of_experts_are_there_too() -> None:
    """In every forward PEFT adds the adapters of fused experts to their weights, whatever the batch."""
    shape = architecture_from_config(EXPERTS)
    parameters = tuple(name for name, *_ in shape.expert_shapes())
    adapted = LoraShape(8, (), experts=parameters, expert_rank=8)
    weights = 2 * sum(count * inputs * outputs for _, count, inputs, outputs in shape.expert_shapes())
    assert TOKENS * (predicted(shape, adapted) - predicted(shape, LoraShape(8, ()))) > weights


def test_a_batch_has_room_for_experts_that_all_run() -> None:
    """A token of Maverick meets 128 experts: a layer of 4,096 tokens takes 37 GiB, and not 0.4."""
    found = model("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    assert found is not None
    lora = LoraShape(8, ("q_proj", "v_proj"))
    taken = batch_bytes(found.architecture, layout("lora"), Workload(lora=lora), 4096)
    assert taken > 4096 * 128 * 2 * (2 * 5120 + 3 * 8192)


def test_a_wider_teacher_decides_how_much_a_batch_takes() -> None:
    work = Workload(objective="distill", teacher=LLAMA_8B)
    wide, narrow = (
        batch_bytes(QWEN_HALF_B, layout("full"), replace(work, teacher=shape), 4096)
        for shape in (LLAMA_8B, QWEN_HALF_B)
    )
    assert wide - narrow > 4096 * 100_000 / 2


def test_the_layers_are_done_when_the_head_makes_logits() -> None:
    """By then of 4,096 tokens of a Llama 3.1 8B their last hidden states are left: 34 MB beside 2.9 GB of logits."""
    tokens, shape = 4_096, LLAMA_8B
    taken = batch_bytes(shape, layout("full"), Workload(seq_len_tokens=tokens), tokens)
    logits = shape.vocab_size * (2 * 2 * tokens + 4 * 3 * 512)
    assert taken == logits + 2 * tokens * shape.hidden_size


def test_the_head_takes_no_more_of_a_long_row_than_of_a_batch() -> None:
    """131,072 tokens of a Llama 3.1 8B would have 67 GB of logits; a layer takes 20 GB of them, and is what counts."""
    work = Workload(seq_len_tokens=131_072)
    taken = batch_bytes(LLAMA_8B, layout("full"), work, 512)
    assert taken == batch_bytes(replace(LLAMA_8B, vocab_size=1_000), layout("full"), work, 512) < 25e9
