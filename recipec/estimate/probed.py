"""The micro steps that `recipec probe` runs, in the words of the estimates."""

from __future__ import annotations

from functools import lru_cache

from recipec.axes.strategies import ON_DEVICE
from recipec.catalog.architecture import Architecture
from recipec.catalog.measured import PROBED
from recipec.estimate.workload import Workload
from recipec.layout import Layout, Mesh


def probed(device: str, dtype: str, sequences: int, tokens: int) -> tuple[Architecture, Layout, Workload]:
    """A step of recipec/probe/steps.py on a kind of device."""
    layout = Layout("full", dtype, "single", Mesh(), ON_DEVICE, sequences, 1, False, "sdpa", False, "adamw")
    return _model(device), layout, Workload(seq_len_tokens=tokens, head="hf")


@lru_cache(maxsize=2)
def _model(device: str) -> Architecture:
    shape = PROBED[device]
    return Architecture(
        model_type="llama",
        hidden_size=shape.hidden,
        num_layers=shape.layers,
        num_heads=shape.heads,
        num_kv_heads=shape.heads,
        head_dim=shape.hidden // shape.heads,
        intermediate_size=shape.intermediate,
        vocab_size=shape.vocabulary,
        tie_embeddings=True,
        max_position=8192,
        decoder_layer="LlamaDecoderLayer",
    )
