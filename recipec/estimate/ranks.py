"""The model as one rank sees it where a layer is spread over ranks.

Checked 2026-11 in transformers 5.23: a tensor plan splits q, k, v, gate and up by columns, the output and down
projections by rows, the vocabulary's matrices by tokens, and leaves norms whole; an expert plan splits experts. A run
of a 139,584-parameter Llama on 2 x 2 tensor and FSDP ranks held 34,976 parameters per rank, which a test repeats.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from recipec.catalog.architecture import Architecture
from recipec.estimate.dispatched import params_elsewhere
from recipec.estimate.sizes import Sizes, sizes
from recipec.estimate.workload import LoraShape
from recipec.layout import Mesh


@lru_cache(maxsize=1024)
def narrowed(architecture: Architecture, tensor: int) -> Architecture:
    """A rank of `tensor`: its share of the heads and of the feed-forward features, everything else whole."""
    if tensor == 1:
        return architecture
    whole = architecture.whole
    return replace(
        architecture,
        whole=whole and replace(whole, num_kv_heads=whole.num_kv_heads // tensor),
        num_heads=architecture.num_heads // tensor,
        num_kv_heads=architecture.num_kv_heads // tensor,
        intermediate_size=architecture.intermediate_size // tensor,
    )


def rank_sizes(architecture: Architecture, lora: LoraShape | None, tensor: int, to_vocabulary: bool) -> Sizes:
    """Parameters that the ranks of one position in their tensor group share; the vocabulary's matrices as gathered.

    TRL 1.16 gathers the whole head for its chunked loss, so only what is stored of it is a share.
    """
    count = sizes(narrowed(architecture, tensor), lora, to_vocabulary)
    vocabulary = count.embedding + count.head
    elsewhere = vocabulary - vocabulary // tensor
    trained_elsewhere = elsewhere if lora is None else 0
    return replace(count, params=count.params - elsewhere, trainable=count.trainable - trained_elsewhere)


def dispatched_sizes(architecture: Architecture, lora: LoraShape | None, mesh: Mesh, to_vocabulary: bool) -> Sizes:
    """The same, without the experts of DeepSpeed-MoE that other ranks have."""
    count = rank_sizes(architecture, lora, mesh.tensor, to_vocabulary)
    return replace(count, elsewhere=params_elsewhere(architecture, mesh))


def gathered_sizes(architecture: Architecture, lora: LoraShape | None, mesh: Mesh, to_vocabulary: bool) -> Sizes:
    """The same, with a layer as a rank gathers it: of the experts only its share."""
    count = rank_sizes(architecture, lora, mesh.tensor, to_vocabulary)
    if mesh.expert == 1 or architecture.moe is None:
        return count
    local = replace(architecture, moe=replace(architecture.moe, count=architecture.moe.count // mesh.expert))
    own = sizes(local, lora, to_vocabulary)
    return replace(count, layer=own.layer, gathered_layer=own.gathered_layer)
