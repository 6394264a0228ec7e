"""Configurations that tell the kind of every layer."""

from __future__ import annotations

import pytest

from recipec.catalog.architecture import LayerKind
from recipec.catalog.configs import UnsupportedConfig, architecture_from_config
from recipec.catalog.models import model
from recipec.estimate.sizes import sizes

CONFIG = {
    "model_type": "nemotron_h",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 64,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
}
NAMES = ["linear_attention", "moe", "full_attention", "mlp"]


@pytest.mark.parametrize(
    "said",
    [
        {"layers_block_type": NAMES},
        {"layer_types": NAMES, "num_hidden_layers": 4},
        {"layers_block_type": ["mamba", "moe", "attention", "mlp"]},
        {"hybrid_override_pattern": "ME*-", "num_hidden_layers": 4},
        {"hybrid_override_pattern": "M", "layers_block_type": NAMES},  # the list comes first
    ],
)
def test_every_way_to_say_a_pattern_gives_the_same_layers(said: dict) -> None:
    found = architecture_from_config({**CONFIG, **said})
    assert found == architecture_from_config({**CONFIG, "layers_block_type": NAMES})
    assert found.kind(1) == LayerKind(attention=False) and found.kind(3) == LayerKind(attention=False, plain=True)
    assert (found.attention_layers, found.mixed_layers, found.sparse_layers, len(found.kinds)) == (1, 1, 1, 4)
    assert [layers for layers, _ in found.linear_groups] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "layers_block_type does not say"),
        ({"hybrid_override_pattern": "MX"}, "not a list of linear_attention, full_attention, mlp, moe"),
        ({"layers_block_type": NAMES, "num_hidden_layers": 5}, "num_hidden_layers is 5, and the pattern has 4 layers"),
        ({"layers_block_type": NAMES, "moe_latent_size": 16}, "moe_latent_size is set"),
        ({"layers_block_type": NAMES, "use_bias": True}, "use_bias is on"),
    ],
)
def test_what_gives_no_exact_architecture_is_refused(said: dict, why: str) -> None:
    with pytest.raises(UnsupportedConfig, match=why):
        architecture_from_config({**CONFIG, **said})


def test_a_pattern_without_mixers_or_experts_has_neither() -> None:
    found = architecture_from_config({**CONFIG, "hybrid_override_pattern": "*-"})
    assert (found.mixer, found.moe) == (None, None)


def test_two_layers_behind_each_other_are_gathered_together() -> None:
    """In Nemotron 3 Nano no layer of experts stands behind another; beside one stands Mamba 2, which is larger than
    attention."""
    shape = model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-Base-BF16").architecture
    mixer, experts = (shape.layer_params(shape.kind(layer)) for layer in (0, 1))
    count = sizes(shape, None, to_vocabulary=True)
    assert (count.layer, count.gathered_layer) == (experts, (experts + mixer) // 2)
