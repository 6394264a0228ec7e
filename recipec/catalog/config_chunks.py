"""Attention within chunks of the sequence from a config.json, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.config_values import UnsupportedConfig, flag, integer, places
from recipec.catalog.type_row import ChunkType

_WHOLE = "full_attention"


def chunks_of(config: Mapping[str, Any], row: ChunkType) -> dict[str, Any]:
    """The chunks, which layers attend to the whole sequence instead, and by what step these scale queries."""
    stepped = {row.scale.name: row.scale.default, **config}
    return {
        "sliding_window": integer({row.size.name: row.size.default, **config}, row.size.name),
        "chunked": True,
        "full_attention_every": _whole_every(config, row),
        "scale_places": integer(stepped, row.scale.name) if flag(config, row.scales) else 0,
    }


def chunk_keys(architecture: Architecture, row: ChunkType) -> dict[str, Any]:
    """The keys of a config.json that give these chunks."""
    scaled = {row.scale.name: architecture.scale_places} if architecture.scale_places else {}
    layers = range(architecture.num_layers)
    return {
        row.size.name: architecture.sliding_window,
        row.rotated: [int(architecture.windowed(layer)) for layer in layers],
        row.scales.name: architecture.scale_places > 0,
        **scaled,
    }


def _whole_every(config: Mapping[str, Any], row: ChunkType) -> int:
    """Every how many layers one has no chunks; 0 where all have them."""
    layers, listed = integer(config, "num_hidden_layers"), places(config, row.rotated)
    every = integer({row.every.name: row.every.default, **config}, row.every.name)
    rotated = listed or [int((layer + 1) % every != 0) for layer in range(layers)]
    kinds = [row.layer_type if each else _WHOLE for each in rotated]
    if config.get("layer_types", kinds) not in (None, kinds):
        raise UnsupportedConfig(f"layer_types and {row.rotated} do not name the same layers")
    first = rotated.index(0) + 1 if 0 in rotated else 0
    if rotated != [int(not first or (layer + 1) % first != 0) for layer in range(layers)]:
        raise UnsupportedConfig(f"{row.rotated} is not one layer without chunks in every so many layers")
    return first
