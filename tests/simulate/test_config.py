"""Architecture -> transformers configuration -> Architecture."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from recipec.backends.preflight import shape_told
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.layer_parts import MXFP4
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.models import model, model_names
from recipec.simulate.config import config_fields


@pytest.mark.parametrize("name", model_names())
def test_the_way_there_and_back_is_the_same_model(name):
    """As it is loaded: no configuration says how its files hold the experts."""
    architecture = replace(model(name).architecture, attention_dropout=0.0)
    again = architecture_from_config(config_fields(architecture))
    if architecture.moe and architecture.moe.stored == MXFP4:
        architecture = replace(architecture, moe=replace(architecture.moe, stored=""))
    assert again == architecture


@pytest.mark.parametrize("kind", [kind for kind, row in MODEL_TYPES.items() if row.full_attention_every])
def test_the_classes_default_says_which_layers_have_a_window(kind):
    transformers = pytest.importorskip("transformers")
    row, layers = MODEL_TYPES[kind], 24
    config = transformers.AutoConfig.for_model(kind, num_hidden_layers=layers)
    whole = [(layer + 1) % row.full_attention_every == 0 for layer in range(layers)]
    assert [kind == "full_attention" for kind in config.layer_types] == whole


@pytest.mark.parametrize("kind", [kind for kind, row in MODEL_TYPES.items() if row.windowed == "always"])
def test_the_classes_default_is_the_window_of_a_configuration_without_one(kind):
    transformers = pytest.importorskip("transformers")
    assert transformers.AutoConfig.for_model(kind).sliding_window == MODEL_TYPES[kind].window


@pytest.mark.parametrize("name", {model(name).architecture.model_type: name for name in model_names()}.values())
def test_every_configuration_tells_the_sizes_that_a_run_compares(name):
    """preflight.py compares them with the planned ones, under these names, whatever the checkpoint calls them."""
    transformers = pytest.importorskip("transformers")
    architecture = model(name).architecture
    config = transformers.AutoConfig.for_model(**config_fields(architecture)).get_text_config()
    sizes = ("num_hidden_layers", "hidden_size", "num_attention_heads")
    assert shape_told(architecture) == ", ".join(f"{size} {getattr(config, size)}" for size in sizes)
