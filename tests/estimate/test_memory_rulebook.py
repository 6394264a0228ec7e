"""Memory figures that the rule book states, each with our verdict on it."""

from __future__ import annotations

import pytest
from estimate_shapes import GIB, LLAMA_7B, LLAMA_8B, layout

from recipec.estimate.memory import step_memory
from recipec.estimate.work import LoraShape, Work


def stage_gb(architecture, shape, work, stage=None) -> float:
    estimate = step_memory(architecture, shape, work)
    return (estimate.stages[stage] if stage else estimate.peak_allocated_bytes) / 1e9


def test_full_adamw_state_is_sixteen_bytes_per_parameter():
    """Right for weights, gradients and states; the peak of a step is above it."""
    at_step = stage_gb(LLAMA_7B, layout("full"), Work(), "optimizer_step")
    assert at_step / (LLAMA_7B.params / 1e9) == pytest.approx(16, rel=0.001)  # 112 GB for 7 B parameters
    assert stage_gb(LLAMA_7B, layout("full"), Work()) >= at_step


def test_lora_of_a_7b_model_fits_where_the_rule_book_says():
    """16.9 GB holds for a short batch with checkpointing; it leaves nothing for long ones."""
    short = stage_gb(LLAMA_7B, layout(batch=1), Work(seq_len_tokens=1024, lora=LoraShape(16)))
    assert short == pytest.approx(14.3, abs=0.5)
    assert short < 16.9


def test_qlora_of_a_7b_model_takes_less_than_the_rule_book_says():
    """About 8 GB is on the safe side: the chunked head and checkpointing leave 5 GB."""
    assert stage_gb(LLAMA_7B, layout(quantization="nf4"), Work(lora=LoraShape(16))) < 8


def test_four_bit_weights_take_half_a_byte_and_their_scales():
    estimate = step_memory(LLAMA_8B, layout(quantization="nf4"), Work(lora=LoraShape(16)))
    rest = 2 * LLAMA_8B.embedding_params + 2 * LLAMA_8B.hidden_size * (2 * LLAMA_8B.num_layers + 1)
    linear = LLAMA_8B.params - LLAMA_8B.embedding_params - LLAMA_8B.hidden_size * (2 * LLAMA_8B.num_layers + 1)
    assert (estimate.terms["weights"] - rest) / linear == pytest.approx(0.515869, abs=1e-6)


def test_eight_bit_adam_keeps_embeddings_in_fp32():
    estimate = step_memory(LLAMA_8B, layout("full", optimizer="adamw-8bit"), Work())
    embedding = LLAMA_8B.vocab_size * LLAMA_8B.hidden_size
    expected = (LLAMA_8B.params - embedding) * 2 * (1 + 4 / 256) + 8 * embedding
    assert estimate.terms["optimizer_states"] == pytest.approx(expected)


def test_paged_states_leave_the_device():
    estimate = step_memory(LLAMA_8B, layout("full", optimizer="paged-adamw-8bit"), Work())
    assert "optimizer_states" not in estimate.terms
    assert estimate.host_bytes > 2 * LLAMA_8B.params


def test_the_loss_code_decides_more_than_the_rule_book_knows():
    trl, hf = (stage_gb(LLAMA_8B, layout(batch=4), Work(lora=LoraShape(16), head=head)) for head in ("trl", "hf"))
    assert hf / trl == pytest.approx(29.29 / 20.06, rel=0.01)


def test_preference_reference_by_adapter_costs_nothing():
    pair = Work(objective="dpo", lora=LoraShape(16))
    without, off, model = (
        step_memory(LLAMA_8B, layout(), Work(**{**_fields(pair), "reference": r})).peak_allocated_bytes
        for r in ("none", "adapter-off", "model")
    )
    assert without == off
    assert (model - off) / GIB == pytest.approx(2 * LLAMA_8B.params / GIB, rel=0.001)


def _fields(work: Work) -> dict[str, object]:
    return {name: getattr(work, name) for name in Work.__slots__}
