"""Experts see a share of the tokens: their products have fewer rows, and what is known of such runs is told."""

from __future__ import annotations

import pytest
from estimate_shapes import LLAMA_8B, layout
from msgspec.structs import replace

from recipec.catalog.gpus import gpu
from recipec.catalog.models import model
from recipec.estimate.flops import forward_flops
from recipec.estimate.kernels import product_rate, products_seconds
from recipec.estimate.links import link_of
from recipec.estimate.throughput import step_time
from recipec.estimate.workload import Workload
from recipec.layout import Mesh

H100 = gpu("h100-sxm")
MIXTURE = model("Qwen/Qwen3-30B-A3B-Base").architecture
ROUTED = 2 * 48 * 8 * 3 * 2048 * 768  # operations of a token: 48 layers, 8 experts of three matrices


def test_the_experts_of_a_token_are_eight_of_128() -> None:
    forward = forward_flops(MIXTURE, 4096)
    assert forward.routed == ROUTED
    assert forward.layers - forward.routed == pytest.approx(2 * 48 * (2 * 2048 * 4096 + 2 * 2048 * 512), rel=0.02)
    assert forward_flops(LLAMA_8B, 4096).routed == 0


def test_experts_compute_at_the_rate_of_the_rows_that_each_gets() -> None:
    tokens, rest = 4096, 1e9
    found = products_seconds(MIXTURE, ROUTED + rest, ROUTED, tokens, "bf16", H100)
    rates = [product_rate(H100, "bf16", rows) for rows in (tokens, tokens * 8 / 128)]
    assert found == pytest.approx(tokens * (rest / rates[0] + ROUTED / rates[1]))
    assert rates[1] < 0.6 * rates[0]


def test_an_expert_that_computes_has_a_row() -> None:
    """One token goes to 8 experts of 128, each of which multiplies it alone."""
    found = products_seconds(MIXTURE, ROUTED, ROUTED, 1, "bf16", H100)
    assert found == pytest.approx(ROUTED / product_rate(H100, "bf16", 1))
    few = products_seconds(MIXTURE, ROUTED, ROUTED, 12, "bf16", H100)
    assert few == pytest.approx(12 * ROUTED / product_rate(H100, "bf16", 1)), "three quarters of a row each"
    more = products_seconds(MIXTURE, ROUTED, ROUTED, 48, "bf16", H100)
    assert more == pytest.approx(48 * ROUTED / product_rate(H100, "bf16", 3))


def test_the_same_work_of_more_experts_takes_longer() -> None:
    few = replace(MIXTURE, moe=replace(MIXTURE.moe, count=32))
    shape, link = layout("full", 4096, 8, "fsdp"), link_of(H100)
    shape = replace(shape, micro_batch=1)
    spread, gathered = (
        step_time(each, shape, Workload(seq_len_tokens=4096), H100, link).terms["compute"] for each in (MIXTURE, few)
    )
    assert spread > 1.05 * gathered


def test_what_is_known_of_mixtures_is_told() -> None:
    shape, work = layout("full", 1, 8, "fsdp"), Workload(seq_len_tokens=4096)
    mixture, dense = (step_time(each, shape, work, H100, link_of(H100)) for each in (MIXTURE, LLAMA_8B))
    assert "1.3 to 2.3 times as long" in mixture.slower and "as long" not in dense.slower


def test_ranks_that_share_the_experts_bring_each_the_tokens_of_all() -> None:
    alone, shared = (products_seconds(MIXTURE, 2.0 * ROUTED, ROUTED, 4096, "bf16", H100, sharing) for sharing in (1, 8))
    rates = [product_rate(H100, "bf16", 4096 * 8 / 128 * sharing) for sharing in (1, 8)]
    assert alone - shared == pytest.approx(4096 * ROUTED * (1 / rates[0] - 1 / rates[1]))
    few, many = (layout("full", 1, 8, "fsdp"), replace(layout("full", 1, 8, "fsdp"), mesh=Mesh(shard=8, expert=8)))
    work, link = Workload(seq_len_tokens=4096), link_of(H100)
    seconds = [step_time(MIXTURE, each, work, H100, link).terms["compute"] for each in (many, few)]
    assert seconds[0] < seconds[1]
