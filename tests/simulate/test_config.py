"""Architecture -> transformers configuration -> Architecture."""

from __future__ import annotations

import pytest

from recipec.catalog.configs import architecture_from_config
from recipec.catalog.models import model, model_names
from recipec.simulate.config import config_fields


@pytest.mark.parametrize("name", model_names())
def test_the_way_there_and_back_is_the_same_model(name):
    architecture = model(name).architecture
    assert architecture_from_config(config_fields(architecture)) == architecture
