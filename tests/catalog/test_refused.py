"""What is known and not built is refused with what is missing, and nothing that is built is."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.catalog.configs import UnsupportedConfig, architecture_from_config
from recipec.catalog.mirrors import mirrors
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.models import model_names
from recipec.catalog.refused import why_no_type, why_not


def test_nothing_is_both_built_and_refused() -> None:
    assert not [name for name in (*model_names(), *mirrors()) if why_not(name)]
    assert not [name for name in MODEL_TYPES if why_no_type(name)]


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("Qwen/Qwen3.5-35B-A3B", "gated delta net"),
        ("LiquidAI/LFM2-8B-A1B", "short convolutions"),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "fewer features"),
        ("zai-org/GLM-4.7-Flash", "latent attention"),
        ("mistralai/Ministral-3-8B-Instruct-2512", "FP8"),
    ],
)
def test_the_diagnostic_says_what_is_missing(tmp_path: Path, name: str, missing: str) -> None:
    (found,) = compiled(tmp_path, with_key(BASES["lora-single"], "model.name", name)).diagnostics
    assert found.code == "E0301"
    assert missing in found.labels[0].message


def test_a_configuration_of_such_a_type_says_what_is_missing() -> None:
    with pytest.raises(UnsupportedConfig, match="gated delta net"):
        architecture_from_config({"model_type": "qwen3_5_moe_text"})
