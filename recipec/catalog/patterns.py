"""Models whose config.json tells the kind of every layer by a list, or that have layers of one kind of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.architecture import Architecture, LayerKind
from recipec.catalog.config_values import OddValue, UnsupportedConfig, shown
from recipec.catalog.type_row import PatternType


def with_pattern(config: Mapping[str, Any], row: PatternType | None) -> Mapping[str, Any]:
    """The configuration with the list of its layers as transformers 5 writes it, which gives their number."""
    if row is None or not row.key:
        return config
    layers = _listed(config, row)
    stated = config.get("num_hidden_layers", len(layers))
    if stated != len(layers):
        raise OddValue(f"num_hidden_layers is {shown(stated)}, and the pattern has {len(layers)} layers")
    return {**config, row.key: layers, "num_hidden_layers": len(layers)}


def _listed(config: Mapping[str, Any], row: PatternType) -> list[str]:
    """The kinds of the layers by name."""
    listed = next((config[key] for key in (row.key, "layer_types") if config.get(key) is not None), None)
    letters = config.get(row.letters_key)
    if listed is None and isinstance(letters, str):
        listed = [row.letters.get(letter, letter) for letter in letters]
    if listed is None:
        raise UnsupportedConfig(f"{row.key} does not say of which kind each layer is", (row.key,))
    named = [row.older.get(str(kind), str(kind)) for kind in listed] if isinstance(listed, list) else []
    if not named or any(kind not in row.kinds for kind in named):
        raise OddValue(f"{row.key} is not a list of {', '.join(row.kinds)}")
    return named


def kinds_in(config: Mapping[str, Any], row: PatternType) -> tuple[LayerKind, ...]:
    """The kind of every layer of a configuration that `with_pattern` gave."""
    if not row.key:
        (only,) = row.kinds.values()
        return (only,) * config["num_hidden_layers"]
    return tuple(row.kinds[kind] for kind in config[row.key])


def pattern_keys(architecture: Architecture, row: PatternType) -> dict[str, Any]:
    """The keys of a config.json that give these layers."""
    if not row.key:
        return {}
    names = {kind: name for name, kind in row.kinds.items()}
    return {row.key: [names[architecture.kind(layer)] for layer in range(architecture.num_layers)]}
