"""Layers that are spread over ranks: what each rank holds, keeps and gathers."""

from __future__ import annotations

import pytest
from estimate_shapes import LLAMA_8B, dense, layout
from msgspec.structs import replace

from recipec.catalog.architecture import Experts
from recipec.estimate.memory import step_memory
from recipec.estimate.ranks import gathered_sizes, narrowed, rank_sizes
from recipec.estimate.step import step_of
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Mesh

TINY = dense(64, 2, 4, 2, 16, 128, 512)
MIXTURE = replace(LLAMA_8B, moe=Experts(8, 2, 14336, "MoeBlock"))
PACKED = Workload(seq_len_tokens=8192)


def spread(mesh: Mesh, strategy: str = "fsdp", **changes):
    return replace(layout("full", 1, 1, strategy, packing=True, **changes), mesh=mesh)


def terms(mesh: Mesh, architecture=LLAMA_8B, strategy: str = "fsdp", **changes):
    return step_memory(architecture, spread(mesh, strategy, **changes), PACKED)


def test_tensor_ranks_hold_what_a_run_held():
    """transformers 5.23, DistributedConfig(tp_size=2, fsdp_size=2) on a tiny Llama: 34,976 of 139,584 per rank."""
    assert TINY.params == 139_584
    assert rank_sizes(TINY, None, 2, True).params / 2 == 34_976


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_tensor_ranks_share_a_layer(ranks):
    whole, part = rank_sizes(LLAMA_8B, None, 1, True), rank_sizes(LLAMA_8B, None, ranks, True)
    assert part.layer_linear * ranks == whole.layer_linear
    assert narrowed(LLAMA_8B, ranks).kv_size * ranks == LLAMA_8B.kv_size
    norms = (2 * LLAMA_8B.num_layers + 1) * LLAMA_8B.hidden_size
    assert part.params == pytest.approx((whole.params - norms) / ranks + norms)


def test_tensor_ranks_keep_whole_inputs_and_recompute_parts():
    """Checkpoints are the residual stream, which every rank has; what a layer saves inside is shared."""
    alone, shared = (step_of(LLAMA_8B, spread(Mesh(shard=8, tensor=t)), PACKED) for t in (1, 4))
    assert shared.fixed.layers.checkpoint == alone.fixed.layers.checkpoint
    assert shared.fixed.layers.saved < 0.6 * alone.fixed.layers.saved
    assert shared.tokens == alone.tokens


@pytest.mark.parametrize("ranks", [2, 4])
def test_context_ranks_keep_their_part_of_a_sequence(ranks):
    alone, shared = (step_of(LLAMA_8B, spread(Mesh(shard=8, context=c)), PACKED) for c in (1, ranks))
    assert shared.tokens * ranks == alone.tokens
    assert shared.batch.gathered_context == 2 * 2 * LLAMA_8B.kv_size * 8192 and alone.batch.gathered_context == 0


def test_context_ranks_share_the_weights_too():
    assert terms(Mesh(shard=4, context=2)).terms["weights"] == terms(Mesh(shard=8)).terms["weights"]


def test_copies_of_shards_do_not_share_and_keep_what_they_exchange():
    """HSDP: as much as FSDP over one group, and the reduced gradients that the copies add up."""
    one, copied = terms(Mesh(shard=8)), terms(Mesh(4, 8), strategy="hsdp")
    assert copied.moments["optimizer_step"] == one.moments["optimizer_step"]
    embedding = LLAMA_8B.vocab_size * LLAMA_8B.hidden_size
    kept = copied.moments["end_of_backward"] - one.moments["end_of_backward"]
    assert kept == pytest.approx(2 * (LLAMA_8B.params - embedding) / 8)


def test_expert_ranks_gather_their_experts_and_hold_the_same_share():
    alone, shared = Mesh(shard=8), Mesh(shard=8, expert=4)
    assert terms(shared, MIXTURE).terms["weights"] == terms(alone, MIXTURE).terms["weights"]
    kept = gathered_sizes(MIXTURE, None, alone, True).layer - gathered_sizes(MIXTURE, None, shared, True).layer
    assert kept == 6 * (3 * MIXTURE.hidden_size * 14336 + MIXTURE.hidden_size)
    assert terms(shared, MIXTURE).peak_allocated_bytes < terms(alone, MIXTURE).peak_allocated_bytes


def test_adapters_are_trained_where_their_layers_are():
    """What of the vocabulary is stored elsewhere trains there, if it trains at all."""
    full, adapted = (rank_sizes(LLAMA_8B, lora, 2, True) for lora in (None, LoraShape(16)))
    assert full.trainable == full.params
    assert adapted.trainable == adapted.adapters
