"""Copies of models under other names: the shape of the original, and a chat template of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.catalog.mirrors import mirrors
from recipec.catalog.models import model, model_names


@pytest.mark.parametrize(("copy", "original"), mirrors().items())
def test_a_copy_has_the_shape_of_its_original(copy: str, original: str) -> None:
    found, first = model(copy.upper()), model(original)
    assert (found.name, found.architecture, found.kind) == (copy, first.architecture, first.kind)
    assert (found.gated, found.template_family) == (None, None)
    assert first.name == original
    assert copy not in model_names()


def test_the_copy_is_what_is_downloaded(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["lora-single"], "model.name", "unsloth/Llama-3.2-1B-Instruct")))
    assert 'MODEL = "unsloth/Llama-3.2-1B-Instruct"' in bundle["train.py"]
