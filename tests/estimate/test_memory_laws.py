"""Laws that published measurements obey to a fraction of a percent."""

from __future__ import annotations

import pytest
from estimate_shapes import GIB, LLAMA_7B, LLAMA_8B, MISTRAL_7B, layout

from recipec.catalog.models import model
from recipec.estimate.activations import activations
from recipec.estimate.codepath import code_path
from recipec.estimate.memory import step_memory
from recipec.estimate.sizes import sizes
from recipec.estimate.step import step_of
from recipec.estimate.workload import LoraShape, Workload

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
PUBLISHED = {
    "reentrant": True,
    "foreach": True,
    "fsdp": 1,
    "seq_len_tokens": 4096,
}  # HF Trainer of 2024, flash attention


def peak(architecture, shape, work) -> int:
    return step_memory(architecture, shape, work).peak_allocated_bytes


@pytest.mark.parametrize("architecture", [LLAMA_8B, MISTRAL_7B])
def test_full_fine_tuning_of_bf16_weights_peaks_at_ten_bytes_per_parameter(architecture):
    work = Workload(head="fused", full_weights="bf16", **PUBLISHED)
    assert peak(architecture, layout("full", 4), work) / architecture.params == pytest.approx(10, abs=0.01)


@pytest.mark.parametrize("ranks", [2, 4])
def test_full_fine_tuning_under_fsdp_peaks_at_twenty_bytes_per_parameter_and_rank(ranks):
    shape = layout("full", 4, ranks, "fsdp")
    work = Workload(head="fused", fused_kernels=True, **PUBLISHED)
    assert peak(MISTRAL_7B, shape, work) * ranks / MISTRAL_7B.params == pytest.approx(20, abs=0.02)


def test_a_fused_optimizer_needs_no_temporaries():
    with_foreach = step_memory(LLAMA_8B, layout("full"), Workload(foreach=True, full_weights="bf16"))
    fused = step_memory(LLAMA_8B, layout("full"), Workload(full_weights="bf16"))
    saved = with_foreach.moments["optimizer_step"] - fused.moments["optimizer_step"]
    assert saved == pytest.approx(2 * LLAMA_8B.params)


AFFINE = [  # architecture, quantisation, work, published intercept in GiB, published slope in kB per token
    ("Mistral LoRA, HF loss", MISTRAL_7B, "none", {"head": "hf-fp32-copy"}, 13.66, 734.8),
    ("Mistral LoRA, fused loss", MISTRAL_7B, "none", {"head": "fused", "fused_kernels": True}, 13.66, 541.0),
    ("Mistral QLoRA, HF loss", MISTRAL_7B, "nf4", {"head": "hf-fp32-copy"}, 4.04, 734.8),
    ("Mistral QLoRA, kbit", MISTRAL_7B, "nf4", {"head": "hf-fp32-copy", "kbit_fp32_residual": True}, 4.04, 996.9),
    ("Mistral QLoRA, fused loss", MISTRAL_7B, "nf4", {"head": "fused", "fused_kernels": True}, 4.01, 532.6),
    ("Llama LoRA, in place", LLAMA_8B, "none", {"head": "inplace", "fused_kernels": True}, 15.15, 1304.5),
    ("Llama LoRA, fused loss", LLAMA_8B, "none", {"head": "fused", "fused_kernels": True}, 15.13, 528.7),
    ("Llama QLoRA, in place", LLAMA_8B, "nf4", {"head": "inplace", "fused_kernels": True}, 5.48, 1304.5),
    ("Llama QLoRA, fused loss", LLAMA_8B, "nf4", {"head": "fused", "fused_kernels": True}, 5.48, 520.4),
]


@pytest.mark.parametrize(
    "name, architecture, quantization, changes, intercept_gib, slope_kb", AFFINE, ids=[a[0] for a in AFFINE]
)
def test_adapter_runs_are_affine_in_tokens(name, architecture, quantization, changes, intercept_gib, slope_kb):
    work = Workload(
        lora=LoraShape(16, ATTENTION),
        adapters="fp32",
        repeated_kv=architecture is MISTRAL_7B,
        **{**PUBLISHED, **changes},
    )
    tokens = (4 * 4096, 32 * 4096)
    low, high = (
        peak(architecture, layout("qlora" if quantization == "nf4" else "lora", batch), work) for batch in (4, 32)
    )
    slope = (high - low) / (tokens[1] - tokens[0])
    assert slope / 1000 == pytest.approx(slope_kb, rel=0.035)
    assert (low - slope * tokens[0]) / GIB == pytest.approx(intercept_gib, rel=0.06)


def test_frozen_fsdp1_units_hold_their_inputs():
    """Llama-3-8B LoRA on 2 GPUs: 774.4 kB per token, where one GPU has 528.7."""
    work = Workload(lora=LoraShape(16, ATTENTION), head="fused", fused_kernels=True, **PUBLISHED)
    low, high = (peak(LLAMA_8B, layout("lora", batch, 2, "fsdp"), work) for batch in (8, 16))
    assert (high - low) / (8 * 4096) / 1000 == pytest.approx(774.4, rel=0.015)


def test_zero3_steady_and_peak_of_a_published_run():
    """DeepSpeedExamples: 6.86 B parameters, 4 GPUs: 31.38 GiB at the peak (19.6 bytes per parameter and rank)."""
    estimate = step_memory(LLAMA_7B, layout("full", 1, 4, "zero3"), Workload(seq_len_tokens=512))
    per_param = estimate.moments["optimizer_step"] * 4 / LLAMA_7B.params
    assert per_param * 6.86e9 / 4 / GIB == pytest.approx(31.38, rel=0.015)


def test_full_adamw_state_is_sixteen_bytes_per_parameter():
    """Weights, gradients and states; the peak of a step is above it."""
    estimate = step_memory(LLAMA_7B, layout("full"), Workload())
    assert estimate.moments["optimizer_step"] / LLAMA_7B.params == pytest.approx(16, rel=0.001)
    assert estimate.peak_allocated_bytes >= estimate.moments["optimizer_step"]


def test_four_bit_weights_take_half_a_byte_and_their_scales():
    estimate = step_memory(LLAMA_8B, layout("qlora"), Workload(lora=LoraShape(16)))
    rest = 2 * LLAMA_8B.embedding_params + 2 * LLAMA_8B.hidden_size * (2 * LLAMA_8B.num_layers + 1)
    linear = LLAMA_8B.params - LLAMA_8B.embedding_params - LLAMA_8B.hidden_size * (2 * LLAMA_8B.num_layers + 1)
    assert (estimate.terms["weights"] - rest) / linear == pytest.approx(0.515869, abs=1e-6)


def test_ranks_share_packed_weights_and_scales_but_not_the_scales_of_scales():
    ranks, work = 8, Workload(lora=LoraShape(16))
    whole, shared = (
        step_memory(LLAMA_8B, layout("qlora", 1, ranks, name), work).terms["weights"] for name in ("ddp", "fsdp")
    )
    kept = 4 / (64 * 256) * sizes(LLAMA_8B, work.lora, True).linear
    assert shared == pytest.approx((whole - kept) / ranks + kept, rel=1e-6)


def test_a_layer_of_a_4_bit_base_is_gathered_packed():
    work = Workload(lora=LoraShape(16))
    packed, plain = (step_of(LLAMA_8B, layout(name, 1, 8, "fsdp"), work).fixed for name in ("qlora", "lora"))
    saved = (2 - 0.5 - 1 / 64) * packed.sizes.layer_linear
    assert plain.buffers.backward - packed.buffers.backward == pytest.approx(2 * saved)  # one in use, one prefetched


def test_eight_bit_adam_keeps_embeddings_in_fp32():
    estimate = step_memory(LLAMA_8B, layout("full", optimizer="adamw-8bit"), Workload())
    embedding = LLAMA_8B.vocab_size * LLAMA_8B.hidden_size
    expected = (LLAMA_8B.params - embedding) * 2 * (1 + 4 / 256) + 8 * embedding
    assert estimate.terms["optimizer_states"] == pytest.approx(expected)


def test_lion_keeps_one_state_also_in_8_bits():
    embedding = LLAMA_8B.vocab_size * LLAMA_8B.hidden_size
    whole, small = (step_memory(LLAMA_8B, layout("full", optimizer=name), Workload()) for name in ("lion", "lion-8bit"))
    assert whole.terms["optimizer_states"] == 4 * LLAMA_8B.params
    expected = (LLAMA_8B.params - embedding) * (1 + 4 / 256) + 4 * embedding
    assert small.terms["optimizer_states"] == pytest.approx(expected)


def test_deepspeed_hands_8_bit_optimizers_flat_shards_without_embeddings():
    estimate = step_memory(LLAMA_8B, layout("full", 1, 4, "zero2", optimizer="adamw-8bit"), Workload())
    assert estimate.terms["optimizer_states"] == pytest.approx(2 * (1 + 4 / 256) * LLAMA_8B.params / 4)


def test_adafactor_keeps_rows_and_columns_and_works_on_the_largest_matrix():
    """Llama-3-8B by hand: 7 matrices per layer, two of the vocabulary, 65 norms."""
    h, kv, inner, vocabulary = 4096, 1024, 14336, 128256
    layer = 2 * (h + h) + 2 * (h + kv) + 3 * (h + inner)
    factors = 32 * layer + 2 * (vocabulary + h) + 65 * h
    plain, estimate = (
        step_memory(LLAMA_8B, layout("full", optimizer=name), Workload()) for name in ("sgd", "adafactor")
    )
    assert estimate.terms["optimizer_states"] == 4 * factors
    step = 8 * LLAMA_8B.params + 4 * factors + 2 * 4 * vocabulary * h
    assert estimate.moments["optimizer_step"] == pytest.approx(step)
    assert plain.moments["optimizer_step"] == pytest.approx(12 * LLAMA_8B.params)


def test_sgd_copies_the_gradients_for_a_decay_and_keeps_nothing():
    bare, decaying, sharded = (
        step_memory(LLAMA_8B, layout("full", 1, ranks, strategy, optimizer="sgd"), Workload(decays=decays))
        for ranks, strategy, decays in ((1, "single", False), (1, "single", True), (4, "fsdp", True))
    )
    assert "optimizer_states" not in bare.terms
    assert bare.moments["optimizer_step"] == pytest.approx(8 * LLAMA_8B.params)
    assert decaying.moments["optimizer_step"] == pytest.approx(12 * LLAMA_8B.params)
    largest = 4 * LLAMA_8B.vocab_size * LLAMA_8B.hidden_size
    assert sharded.moments["optimizer_step"] >= (8 * LLAMA_8B.params + largest) / 4
    assert sharded.moments["optimizer_step"] < 12 * LLAMA_8B.params / 4


def test_bitsandbytes_keeps_fp32_states_of_bf16_adapters():
    qlora = Workload(lora=LoraShape(16), adapters="bf16")
    torch_adamw, lion = (
        step_memory(LLAMA_8B, layout("qlora", optimizer=name), qlora).terms["optimizer_states"]
        for name in ("adamw", "lion")
    )
    assert torch_adamw == lion  # two of 2 bytes, one of 4


def test_paged_states_leave_the_device():
    estimate = step_memory(LLAMA_8B, layout("full", optimizer="paged-adamw-8bit"), Workload())
    assert "optimizer_states" not in estimate.terms
    assert estimate.host_bytes > 2 * LLAMA_8B.params


def test_the_loss_code_decides_more_than_the_rule_book_knows():
    trl, hf = (peak(LLAMA_8B, layout(batch=4), Workload(lora=LoraShape(16), head=head)) for head in ("", "hf"))
    assert hf / trl == pytest.approx(29.29 / 20.06, rel=0.01)


def test_a_reference_is_a_second_model_only_where_all_weights_train():
    adapters, full = Workload(objective="dpo", lora=LoraShape(16)), Workload(objective="dpo")
    assert "reference_model" not in step_memory(LLAMA_8B, layout(), adapters).terms
    terms = step_memory(LLAMA_8B, layout("full"), full).terms
    assert terms["reference_model"] == terms["weights"] == 4 * LLAMA_8B.params


def test_a_layer_of_adapters_saves_what_its_operations_count():
    """Bytes per token: h hidden, f feed-forward, q query and kv key width, H heads, r rank; adapters on all layers."""
    h, f, q, kv, heads, r = 4096, 14336, 4096, 1024, 32, 16
    work = Workload(lora=LoraShape(r))
    saved = activations(LLAMA_8B, work.lora, code_path(layout(), work)).saved
    assert saved == 18 * h + 8 * f + 6 * q + 4 * kv + 4 * heads + 14 * r + 8


def test_behind_a_fused_projection_the_output_is_kept_only_by_who_needs_it():
    """Phi-3, two rows of 2,048 tokens, activations kept: 22.31 GiB simulated with adapters on queries, keys, values."""
    found = model("microsoft/Phi-3-mini-4k-instruct")
    assert found
    shape = layout(batch=2, checkpointing=False)
    for targets, simulated_gib in ((("qkv_proj",), 22.31), (("qkv_proj", "o_proj"), 23.11), ("all-linear", 26.07)):
        peak = step_memory(found.architecture, shape, Workload(lora=LoraShape(16, targets))).peak_allocated_bytes
        assert peak / GIB == pytest.approx(simulated_gib, rel=0.005)
