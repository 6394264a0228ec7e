"""Operations, links and step time."""

from __future__ import annotations

import pytest
from estimate_shapes import LLAMA_7B, LLAMA_8B, MISTRAL_7B, layout
from msgspec.structs import replace

from recipec.catalog.gpus import gpu
from recipec.catalog.models import model
from recipec.estimate.flops import attended_tokens, forward_flops, step_flops
from recipec.estimate.kernels import BANDWIDTH_SHARE, peak_flops
from recipec.estimate.links import COLLECTIVE_SECONDS, HOP_SECONDS, Group, link_of, transfer_seconds
from recipec.estimate.scored import memory_scored
from recipec.estimate.step import step_of
from recipec.estimate.throughput import step_time
from recipec.estimate.traffic import exchanges, inside_layers
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Mesh

A100 = gpu("a100-80gb")
PLAIN = Workload()
NVLINK = link_of(A100, gpus_per_node=8, network_gbps=100)


def seconds(shape, work, card=A100, link=NVLINK) -> float:
    return step_time(LLAMA_8B, shape, work, card, link).seconds_per_step


def flops(shape, work):
    return step_flops(LLAMA_8B, shape, work, step_of(LLAMA_8B, shape, work).fixed)


def test_a_forward_is_two_operations_per_active_weight():
    forward = forward_flops(LLAMA_7B, 2048)
    assert forward.layers + forward.head == pytest.approx(
        2 * (LLAMA_7B.params - LLAMA_7B.vocab_size * LLAMA_7B.hidden_size)
    )


@pytest.mark.parametrize("length, window, attended", [(4096, None, 2048), (4096, 8192, 2048), (4096, 1024, 896)])
def test_a_window_bounds_what_is_attended(length, window, attended):
    assert attended_tokens(length, window) == attended


def test_training_multiplies_a_forward():
    full, lora = Workload(head="hf"), Workload(head="hf", lora=LoraShape(16))
    forward = forward_flops(LLAMA_8B, 2048)
    products = forward.layers + forward.head
    attention = 3.5 * forward.attention
    plain = flops(layout("full", checkpointing=False), full)
    assert (plain.products, plain.attention) == pytest.approx((3 * products, attention))
    assert plain.model == pytest.approx(plain.products + plain.attention)
    adapted = flops(layout(checkpointing=False), lora)
    assert (adapted.products, adapted.attention) == pytest.approx((2 * products, attention))
    repeated = flops(layout("full"), full)
    assert repeated.model == plain.model
    assert repeated.products - plain.products == pytest.approx(forward.layers)
    assert repeated.attention - plain.attention == pytest.approx(forward.attention)


def test_some_layers_attend_to_the_whole_sequence():
    """Gemma 3: a window of 512 tokens, and every sixth layer without one (transformers 5.23 Gemma3TextConfig)."""
    gemma = model("google/gemma-3-1b-pt")
    assert gemma
    shape = gemma.architecture
    assert shape.layers_by_window == {512: 22, None: 4}
    keys = 22 * attended_tokens(8192, 512) + 4 * attended_tokens(8192, None)
    assert forward_flops(shape, 8192).attention == pytest.approx(4 * keys * shape.query_size)
    assert forward_flops(replace(shape, full_attention_every=0), 8192).attention < forward_flops(shape, 8192).attention


@pytest.mark.parametrize(
    ("rows", "changes", "objective", "squares"),
    [
        (1, {}, "sft", 1),  # SDPA skips what causal attention never looks at
        (2, {}, "sft", 2),  # rows of different length have a mask
        (2, {"packing": True}, "sft", 4),  # packed examples are one long row with a mask
        (2, {"packing": True, "attention": "flash_attention_2"}, "sft", 1),
        (2, {"packing": True, "attention": "torch_varlen"}, "sft", 1),
        (2, {"packing": True}, "continue-pretrain", 1),  # packed text needs none
        (1, {"attention": "eager"}, "sft", 2),
        (1, {"compiled": True}, "sft", 2),  # a traced forward always builds its mask
    ],
)
def test_what_has_a_mask_computes_whole_squares(rows, changes, objective, squares):
    compiled = changes.get("compiled", False)
    shape = layout("full", rows, checkpointing=False, **{k: v for k, v in changes.items() if k != "compiled"})
    work = Workload(head="hf", compiled=compiled, objective=objective, seq_len_tokens=2048, padded=not shape.packing)
    attention = 3.5 * forward_flops(LLAMA_8B, 2048).attention
    assert flops(shape, work).attention == pytest.approx(squares * attention)


@pytest.mark.parametrize(("attention", "share"), [("torch_varlen", 0.25), ("flash_attention_2", 0.25), ("sdpa", 2)])
def test_a_kernel_that_knows_examples_attends_within_each(attention, share):
    shape = layout("full", 1, checkpointing=False, packing=True, attention=attention)
    work = Workload(head="hf", seq_len_tokens=2048, example_tokens=512)
    full = 3.5 * forward_flops(LLAMA_8B, 2048).attention
    assert flops(shape, work).attention == pytest.approx(share * full)


def test_each_strategy_sends_what_its_law_says():
    params = LLAMA_8B.params
    assert sent(layout("full", 1, 8, "ddp")) == (0, 8 * params)
    assert sent(layout("full", 1, 8, "fsdp")) == (6 * params, 0)
    assert sent(layout("full", 1, 8, "zero1")) == (0, 6 * params)
    assert sent(layout("full", 1, 8, "zero2")) == (4 * params, 2 * params)
    hybrid = replace(layout("full", 1, 8, "hsdp"), mesh=Mesh(replicate=4, shard=8))
    assert sent(hybrid) == (6 * params + 4 * params / 8, 0)


def test_a_reference_gathers_the_weights_once_more():
    dpo = Workload(objective="dpo")
    shape = layout("full", 1, 8, "fsdp")
    assert sent(shape, dpo) == (8 * LLAMA_8B.params, 0)
    assert sent(layout("full", 1, 8, "ddp"), dpo) == sent(layout("full", 1, 8, "ddp"))


def test_a_4_bit_base_travels_packed():
    work = Workload(lora=LoraShape(16))
    sent = {}
    for name in ("lora", "qlora"):
        shape = layout(name, 1, 8, "fsdp")
        (exchange,) = exchanges(shape, step_of(LLAMA_8B, shape, work), LLAMA_8B.num_layers)
        sent[name] = exchange.per_micro_step
    linear = LLAMA_8B.params - 2 * LLAMA_8B.vocab_size * LLAMA_8B.hidden_size - (2 * 32 + 1) * 4096
    assert sent["lora"] - sent["qlora"] == pytest.approx(2 * linear * (2 - 0.5 - 1 / 64))
    assert sent["lora"] > 2.5 * sent["qlora"]


def test_ddp_sends_gradients_in_the_type_that_trains():
    types = (Workload(lora=LoraShape(16), adapters=name) for name in ("fp32", "bf16"))
    whole, half = (sent(layout("qlora", 1, 8, "ddp"), work)[1] for work in types)
    assert whole == 2 * half


@pytest.mark.parametrize("strategy", ["fsdp", "zero1", "zero2", "zero3"])
def test_sharding_sends_the_type_that_computes(strategy):
    """reduce_dtype of the policy that train.py brings; DeepSpeed: fp32 where neither bf16 nor fp16 is enabled."""
    whole, half = (sent(layout("full", 1, 8, strategy, precision=name)) for name in ("fp32", "bf16"))
    assert whole == tuple(2 * size for size in half)


def sent(shape, work=PLAIN) -> tuple[float, float]:
    """Bytes per micro step and per step."""
    moved = exchanges(shape, step_of(LLAMA_8B, shape, work), LLAMA_8B.num_layers)
    return sum(exchange.per_micro_step for exchange in moved), sum(exchange.per_step for exchange in moved)


def test_layers_that_are_spread_send_what_their_laws_say():
    """Four all-reduces a layer for tensor parallelism, without recomputation (Shoeybi et al. 2019)."""
    shape = replace(layout("full", 1, 8, "fsdp", checkpointing=False), mesh=Mesh(shard=4, tensor=2))
    (found,) = inside_layers(LLAMA_8B, shape, step_of(LLAMA_8B, shape, Workload()))
    assert found.group == Group(2) and found.collectives == 4 * LLAMA_8B.num_layers
    assert found.per_micro_step == 4 * LLAMA_8B.num_layers * 2 * (2 * 2048 * 4096)

    shape = replace(shape, mesh=Mesh(shard=4, context=2))
    (found,) = inside_layers(LLAMA_8B, shape, step_of(LLAMA_8B, shape, Workload()))
    assert found.per_micro_step == 2 * LLAMA_8B.num_layers * (2 * 2 * LLAMA_8B.kv_size * 2048)


def test_leaving_the_node_costs_the_network():
    inside, outside = (transfer_seconds(1e9, Group(ranks), NVLINK) for ranks in (8, 16))
    assert outside > 2 * inside


def test_groups_that_leave_a_node_side_by_side_share_its_network():
    alone, shared = (transfer_seconds(1e9, Group(4, stride), NVLINK) for stride in (8, 8 // 2))
    assert transfer_seconds(1e9, Group(2, 8), NVLINK) == pytest.approx(8 * 0.5e9 / (12.5e9 * 0.8))
    assert alone > shared  # two of the four are in one node


def test_a_collective_takes_its_hops():
    quick, slow = (transfer_seconds(1e9, Group(16), NVLINK, collectives) for collectives in (0, 100))
    hops = 14 * HOP_SECONDS["nvlink"] + HOP_SECONDS["network"]
    assert slow - quick == pytest.approx(100 * (COLLECTIVE_SECONDS + hops))


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "zero2", "zero3"])
def test_more_gpus_at_a_fixed_global_batch_are_never_slower(strategy):
    times = []
    for ranks in (2, 4, 8):
        mesh = Mesh(replicate=ranks) if strategy == "ddp" else Mesh(shard=ranks)
        shape = replace(layout("full", 2, 2, strategy, accumulation=32 // ranks), mesh=mesh)
        times.append(seconds(shape, Workload()))
    assert times == sorted(times, reverse=True)


def test_the_terms_sum_to_the_step_and_name_the_bound():
    estimate = step_time(LLAMA_8B, layout("full", 1, 8, "zero3", offload="cpu"), Workload(), A100, NVLINK)
    assert sum(estimate.terms.values()) == pytest.approx(estimate.seconds_per_step)
    assert estimate.bound_by == max(estimate.terms, key=estimate.terms.__getitem__) == "offload"
    assert 0 < estimate.mfu < 0.7


def test_work_that_is_not_done_takes_no_time():
    full, lora = Workload(), Workload(lora=LoraShape(16))
    assert seconds(layout(batch=4), lora) < seconds(layout("full", 4), full)
    assert seconds(layout(batch=4, checkpointing=False), lora) < seconds(layout(batch=4), lora)
    shared = replace(lora, adapters="bf16")
    assert seconds(layout(batch=4), shared) < seconds(layout("qlora", batch=4), shared)


@pytest.mark.parametrize("batch", [1, 8])
def test_8_bit_products_are_slower_than_those_of_16_bits(batch):
    """Of few rows by more, whose products are small beside what issuing and searching them takes."""
    lora = Workload(lora=LoraShape(16))
    rounded, plain = (seconds(layout(name, batch), lora) for name in ("lora-int8", "lora"))
    assert (1.3 if batch == 1 else 1.05) < rounded / plain < 2


def test_small_batches_are_launch_bound():
    tiny, large = (
        step_time(LLAMA_8B, layout(batch=b), Workload(seq_len_tokens=128, lora=LoraShape(8)), A100, NVLINK)
        for b in (1, 32)
    )
    assert large.tokens_per_second_per_gpu > 4 * tiny.tokens_per_second_per_gpu


def test_a_published_run():
    """Mistral-7B, full fine-tuning, packed 4 x 4096, checkpointing, A100: 3420 tokens/s (fms-acceleration)."""
    work = Workload(seq_len_tokens=4096, head="inplace", full_weights="bf16", foreach=True, fused_kernels=True)
    rate = step_time(MISTRAL_7B, layout("full", 4), work, A100, NVLINK).tokens_per_second_per_gpu
    assert rate == pytest.approx(3420, rel=0.1)


def test_what_an_optimizer_moves():
    """Bytes per parameter: weight, gradient, states; Adafactor 24 fp32 values, SGD for a decay another three."""
    expected = {"adamw": 28, "lion": 20, "lion-8bit": 12 + 2 * (1 + 4 / 256), "adafactor": 96, "sgd": 24}
    for name, size in expected.items():
        seconds = step_time(LLAMA_8B, layout("full", optimizer=name), Workload(), A100, NVLINK).terms["optimizer"]
        assert seconds == pytest.approx(size * LLAMA_8B.params / (A100.bandwidth_gb_s * BANDWIDTH_SHARE * 1e9))
    bare = step_time(LLAMA_8B, layout("full", optimizer="sgd"), Workload(decays=False), A100, NVLINK).terms["optimizer"]
    assert bare == pytest.approx(seconds / 2)


@pytest.mark.parametrize(("memory_gib", "paged_share"), [(141.0, 0.0), (40.0, 1.0)])
def test_paged_states_cross_the_bus_both_ways_where_they_find_no_room(memory_gib, paged_share):
    card = replace(A100, memory_gib=memory_gib)
    plain, paged = (
        step_time(LLAMA_8B, layout("full", optimizer=name), Workload(), card, NVLINK)
        for name in ("adamw-8bit", "paged-adamw-8bit")
    )
    states = 2 * (1 + 4 / 256) * LLAMA_8B.params  # one byte each, and an fp32 number for 256 of them
    assert plain.terms["offload"] == 0
    assert paged.terms["offload"] == pytest.approx(paged_share * 2 * states / (32e9 * 0.75))


def test_inputs_that_wait_on_the_host_cross_the_bus_both_ways():
    here, there = (
        step_time(LLAMA_8B, layout(batch=2, accumulation=3, activation_offload=host), PLAIN, A100, NVLINK).terms[
            "offload"
        ]
        for host in (False, True)
    )
    assert here == 0
    assert there == pytest.approx(3 * 2 * LLAMA_8B.num_layers * 2 * 2048 * 4096 * 2 / (32e9 * 0.75))


@pytest.mark.parametrize(
    ("strategy", "ranks", "changes", "scored"),
    [
        ("single", 1, {}, True),
        ("fsdp", 4, {}, True),
        ("fsdp", 8, {}, True),
        ("fsdp", 1024, {}, False),
        ("zero3", 4, {}, False),
        ("ddp", 8, {}, False),
        ("zero2", 8, {}, False),
        ("zero3", 8, {"offload": "cpu"}, False),
    ],
)
def test_a_time_says_whether_runs_of_its_kind_were_scored(strategy, ranks, changes, scored):
    shape = layout("full", 1, ranks, strategy, **changes)
    found = step_time(LLAMA_8B, shape, PLAIN, A100, NVLINK)
    assert found.scored is scored and bool(found.band_source) is scored


@pytest.mark.parametrize(
    ("adaptation", "card", "gbps", "scored"),
    [
        ("full", "h100", 3200, True),
        ("full", "a100-80gb", 1600, True),
        ("full", "h100", 25, False),
        ("lora", "h100", 3200, False),
        ("full", "h200", 3200, False),
    ],
)
def test_the_times_of_all_weights_on_several_nodes_were_scored_with_fast_networks(adaptation, card, gbps, scored):
    shape, link = layout(adaptation, 1, 64, "fsdp"), link_of(gpu(card), network_gbps=gbps)
    assert step_time(LLAMA_8B, shape, PLAIN, gpu(card), link).scored is scored


def test_the_first_flash_attention_takes_longer_and_fp32_gradients_send_more():
    shape, long = layout("full", 1, 8, "fsdp"), Workload(seq_len_tokens=32_768)
    second, first, wide = (
        step_time(LLAMA_8B, shape, work, A100, NVLINK).terms
        for work in (long, replace(long, first_flash=True), replace(long, reduces_in_fp32=True))
    )
    assert first["compute"] > 1.3 * second["compute"] and first["communication"] <= second["communication"]
    assert wide["compute"] == second["compute"]
    (low,), (high,) = (
        exchanges(shape, step_of(LLAMA_8B, shape, work), 32) for work in (PLAIN, replace(PLAIN, reduces_in_fp32=True))
    )
    assert high.per_micro_step - low.per_micro_step == pytest.approx(2 * LLAMA_8B.params)


@pytest.mark.parametrize(("adaptation", "scored"), [("lora", True), ("bottleneck", False), ("prompt-tuning", False)])
def test_a_band_is_claimed_of_adaptations_that_were_scored(adaptation, scored):
    assert memory_scored(LLAMA_8B, layout(adaptation, 1, 1, "single"), PLAIN) is scored


def test_layers_that_are_spread_were_never_scored():
    shape = replace(layout("full", 1, 8, "fsdp"), mesh=Mesh(shard=4, tensor=2))
    found = step_time(LLAMA_8B, shape, PLAIN, A100, NVLINK)
    assert not found.scored and found.slower


def test_a_card_without_bf16_multiplies_at_its_fp16_rate():
    card = gpu("v100-32gb")
    assert card.bf16_tflops is None
    assert peak_flops(card, "bf16") == peak_flops(card, "fp16") == 8 * peak_flops(card, "fp32")
