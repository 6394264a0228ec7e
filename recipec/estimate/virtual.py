"""What stands before every row: embeddings of a soft prompt or a prefix of keys and values, and what makes them.

Source: PEFT 0.21.2 `p_tuning/model.py` and `prefix_tuning/model.py`: an encoder of three linear layers behind the
embeddings of a soft prompt, of two behind those of a prefix.
"""

from __future__ import annotations

from recipec.catalog.architecture import Architecture
from recipec.estimate.workload import LoraShape

_Shape = tuple[int, int]  # rows and columns of a trained matrix


def virtual_matrices(architecture: Architecture, lora: LoraShape | None) -> list[_Shape]:
    """The trained matrices, embeddings first."""
    if lora is None or not (lora.virtual_tokens or lora.prefix_tokens):
        return []
    hidden, cached, width = architecture.hidden_size, _cached(architecture), lora.encoder
    if lora.prefix_tokens:
        through = [(lora.prefix_tokens, architecture.kv_size), (width, architecture.kv_size), (cached, width)]
        return through if width else [(lora.prefix_tokens, cached)]
    inner = [(width, hidden), (width, width), (hidden, width)] if width else []
    return [(lora.virtual_tokens, hidden), *inner]


def virtual_params(architecture: Architecture, lora: LoraShape | None) -> int:
    """All trained numbers: those of the matrices, and a bias for each output of an encoder."""
    matrices = virtual_matrices(architecture, lora)
    return sum(rows * columns for rows, columns in matrices) + sum(rows for rows, _ in matrices[1:])


def encoder_weights(architecture: Architecture, lora: LoraShape | None) -> int:
    """Weights of the encoder's linear layers, which autocast copies."""
    return sum(rows * columns for rows, columns in virtual_matrices(architecture, lora)[1:])


def _cached(architecture: Architecture) -> int:
    """Keys and values of one token in all layers."""
    return 2 * architecture.num_layers * architecture.kv_size
