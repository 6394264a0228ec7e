"""PyPI has PyTorch for NVIDIA's GPUs: a bundle for others names the index of their build first."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.catalog.stack import stack


@pytest.mark.parametrize(("gpu", "index"), [("mi300x", True), ("h100", False)])
def test_a_bundle_for_amd_installs_the_rocm_build(tmp_path: Path, gpu: str, index: bool) -> None:
    readme = texts(good(tmp_path, with_key(BASES["lora-single"], "hardware.gpu", gpu)))["README.md"]
    line = f"pip install torch=={stack()['torch']} --index-url https://download.pytorch.org/whl/rocm"
    assert (line in readme) is index
    if index:
        assert readme.index(line) < readme.index("pip install -r requirements.txt")
