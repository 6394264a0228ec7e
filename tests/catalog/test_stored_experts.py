"""Which models' files hold experts in another way than transformers runs them."""

from __future__ import annotations

import pytest

from recipec.catalog.configs import architecture_from_config
from recipec.catalog.layer_parts import MXFP4, ONE_BY_ONE
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.models import model


@pytest.mark.parametrize("name", [name for name, row in MODEL_TYPES.items() if row.moe])
def test_experts_are_fused_where_the_row_says_so(name: str) -> None:
    pytest.importorskip("transformers")
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    from transformers.core_model_loading import WeightConverter

    mapping = get_checkpoint_conversion_mapping(name) or []
    row = MODEL_TYPES[name].moe
    assert row is not None
    assert any(isinstance(entry, WeightConverter) for entry in mapping) == row.one_by_one


def test_a_checkpoint_says_that_it_is_in_4_bits() -> None:
    found = {name: model(name) for name in ("openai/gpt-oss-20b", "openai/gpt-oss-120b", "Qwen/Qwen3-30B-A3B")}
    stored = {name: each and each.architecture.moe and each.architecture.moe.stored for name, each in found.items()}
    assert [*stored.values()] == [MXFP4, MXFP4, ONE_BY_ONE]


def test_a_checkpoint_without_4_bits_is_as_the_model_has_it() -> None:
    config = {"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 4, "num_experts_per_tok": 2}
    config |= {"vocab_size": 96, "max_position_embeddings": 512, "tie_word_embeddings": False}
    plain, other = (architecture_from_config(config | more) for more in ({}, {"quantization_config": {}}))
    assert plain.moe and other.moe and (plain.moe.stored, other.moe.stored) == ("", "")
