"""Tokens that families lack: no model of such a family may stop at one, or end turns of its own with it."""

from __future__ import annotations

import pytest

from recipec.catalog.models import models
from recipec.catalog.vocabularies import Lack, lack_of, lacks


@pytest.mark.parametrize("lack", lacks(), ids=lambda lack: f"{lack.token} {lack.families[0]}")
def test_no_model_of_the_catalog_has_what_its_family_lacks(lack: Lack) -> None:
    theirs = [model for model in models() if model.family in lack.families]
    assert {model.family for model in theirs} == set(lack.families)
    for model in theirs:
        assert lack.token not in model.stop_tokens, model.name
        assert model.template is None or model.template.end != lack.token, model.name


def test_a_family_that_is_not_named_may_have_the_token() -> None:
    assert lack_of("mistral", "<|im_end|>") is not None
    assert lack_of("mistral", "</s>") is None and lack_of("yi", "<|im_end|>") is None
