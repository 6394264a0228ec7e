"""A model outside the catalog is read from the local cache of the Hub, at the commit that would be loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, good, with_key

from recipec.catalog.hub_cache import cached_model

CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
RECIPE = with_key(BASES["lora-single"], "model.name", "acme/tiny")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    entry = tmp_path / "hub" / "models--acme--tiny"
    (entry / "refs").mkdir(parents=True)
    (entry / "refs" / "main").write_text("a" * 40)
    for commit, layers in (("a" * 40, 4), ("b" * 40, 6)):
        (entry / "snapshots" / commit).mkdir(parents=True)
        text = json.dumps(CONFIG | {"num_hidden_layers": layers})
        (entry / "snapshots" / commit / "config.json").write_text(text)
    return entry


def test_the_commit_that_would_be_loaded_counts(cache: Path) -> None:
    layers = {revision: cached_model("acme/tiny", revision).architecture.num_layers for revision in (None, "b" * 40)}
    assert layers == {None: 4, "b" * 40: 6}
    assert cached_model("acme/tiny", "c" * 40) is None
    assert cached_model("acme/other", None) is None


def test_the_plan_says_where_the_shape_is_from(cache: Path, tmp_path: Path) -> None:
    found = good(tmp_path, RECIPE).facts.model
    assert (found.name, found.architecture.hidden_size) == ("acme/tiny", 256)
    assert found.source == f"config.json of commit {'a' * 12} in the cache of the Hugging Face Hub"


def test_home_is_where_the_cache_is_unless_it_has_a_place_of_its_own(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(cache.parents[1]))
    assert cached_model("acme/tiny", None) is not None


def test_a_type_that_is_not_built_is_named(cache: Path, tmp_path: Path) -> None:
    (cache / "snapshots" / ("a" * 40) / "config.json").write_text('{"model_type": "lfm2_moe"}')
    found = compiled(tmp_path, RECIPE)
    assert codes(found) == ["E0301"]
    assert "short convolutions" in found.diagnostics[0].labels[0].message
