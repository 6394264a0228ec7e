"""PyPI's PyTorch has kernels for most GPUs of NVIDIA: a bundle for others names the index of their build first."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.catalog.stack import stack


@pytest.mark.parametrize(("gpu", "index"), [("mi300x", "rocm"), ("v100-32gb", "cu126"), ("t4", ""), ("h100", "")])
def test_a_bundle_installs_the_build_for_its_gpu(tmp_path: Path, gpu: str, index: str) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "hardware.gpu", gpu), "model.name", "Qwen/Qwen3-1.7B")
    readme = texts(good(tmp_path, recipe))["README.md"]
    line = f"pip install torch=={stack()['torch']} --index-url https://download.pytorch.org/whl/{index}"
    assert ("--index-url" in readme) is bool(index)
    if index:
        assert readme.index(line) < readme.index("pip install -r requirements.txt")
