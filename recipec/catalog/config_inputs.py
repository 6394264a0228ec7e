"""Layers that borrow keys and values, and what enters every layer, from a config.json, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.catalog.config_values import UnsupportedConfig, count, flag, integer
from recipec.catalog.layer_parts import LayerInputs
from recipec.catalog.type_row import BorrowingType, InputsType, ModelType


def borrowing_of(config: Mapping[str, Any], row: ModelType, every: int) -> dict[str, int]:
    """The last layers of a model, where they have no keys and values of their own.

    `every`: the distance of the layers that attend to the whole sequence. Each kind borrows from the last of its own.
    """
    if row.borrowing is None:
        return {}
    key = row.borrowing.layers
    borrowing = count({key.name: key.default, **config}, key.name)
    own = integer(config, "num_hidden_layers") - borrowing
    if borrowing and row.layer_inputs and inputs_of(config, row.layer_inputs) is None:  # read in transformers 5.23
        raise UnsupportedConfig(
            f"{key.name} is {borrowing}, and without {row.layer_inputs.features.name} it does not run"
        )
    if borrowing and own < max(1, every):
        raise UnsupportedConfig(f"{key.name} is {borrowing}, and the other {own} layers are not of every kind")
    widened = 2 if borrowing and flag(config, row.borrowing.widens) else 1
    return {"borrowing": borrowing, "widened": widened}


def inputs_of(config: Mapping[str, Any], row: InputsType | None) -> LayerInputs | None:
    """What enters every layer; None where nothing does."""
    if row is None:
        return None
    features, rows = (count({key.name: key.default, **config}, key.name) for key in (row.features, row.vocabulary))
    if features and rows != config["vocab_size"]:
        raise UnsupportedConfig(f"{row.vocabulary.name} is {rows}, and vocab_size is {config['vocab_size']}")
    return LayerInputs(features) if features else None


def input_keys(architecture: Architecture, row: ModelType) -> dict[str, Any]:
    """The keys of a config.json that give both."""
    return _borrowing_keys(architecture, row.borrowing) | _inputs_keys(architecture, row.layer_inputs)


def _borrowing_keys(architecture: Architecture, row: BorrowingType | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {row.layers.name: architecture.borrowing, row.widens.name: architecture.widened > 1}


def _inputs_keys(architecture: Architecture, row: InputsType | None) -> dict[str, Any]:
    if row is None:
        return {}
    features = architecture.layer_inputs.features if architecture.layer_inputs else 0
    return {row.features.name: features} | ({row.vocabulary.name: architecture.vocab_size} if features else {})
