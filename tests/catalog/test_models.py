"""The model files: sourced, dated, sane, and right about the size that is published for them."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

from recipec import catalog
from recipec.catalog.models import model, model_names, models

FILES = sorted((Path(catalog.__file__).parent / "models").glob("*.toml"))
KEYS = {
    "family",
    "licence",
    "params_billion",
    "params_source",
    "source",
    "checked",
    "unverified",
    "names",
    "architecture",
    "stored",
}
NAME_KEYS = {"name", "kind", "purpose", "aliases", "gated", "template", "stop_tokens", "architecture"}


def read(path: Path) -> dict:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def twin_keys(entry: dict) -> set[str]:
    return {key for twin in entry["names"] for key in twin}


def test_there_are_models_of_many_families() -> None:
    assert len(FILES) >= 45
    assert len({read(path)["family"] for path in FILES}) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_states_where_its_facts_are_from(path: Path) -> None:
    entry = read(path)
    assert entry.keys() <= KEYS
    assert all(twin.keys() <= NAME_KEYS for twin in entry["names"])
    assert entry["source"] and entry["params_source"]
    assert all(
        key in entry or key in twin_keys(entry) or key in entry["architecture"] for key in entry.get("unverified", [])
    )
    assert date(2026, 11, 1) <= entry["checked"] <= date.today()
    assert path.stem in {name.removesuffix("-hf") for twin in entry["names"] for name in aliases(twin)}


@pytest.mark.parametrize("name", model_names())
def test_the_shape_gives_the_published_size(name: str) -> None:
    found = model(name)
    published = found.params_billion
    half_a_digit = 0.5 * 10 ** -len(f"{published:g}".partition(".")[2])
    assert found.architecture.params / 1e9 == pytest.approx(published, rel=0.01, abs=min(half_a_digit, 0.05))


@pytest.mark.parametrize("name", model_names())
def test_the_numbers_are_sane(name: str) -> None:
    found = model(name)
    shape = found.architecture
    assert found.kind in ("base", "chat")
    assert found.purpose in ("", "reasoning", "code", "math", "research", "intermediate", "legacy")
    assert shape.num_heads % shape.num_kv_heads == 0
    assert shape.head_dim in (64, 80, 96, 128, 256)
    assert 2048 <= shape.max_position <= (10_485_760 if shape.chunked else 524_288)
    assert 32_000 <= shape.vocab_size <= 262_208
    assert shape.active_params <= shape.params
    assert all(token.strip() == token and token for token in found.stop_tokens)


def test_names_and_aliases_are_unique() -> None:
    keys = [key for path in FILES for twin in read(path)["names"] for key in (twin["name"].lower(), *aliases(twin))]
    assert len(keys) == len(set(keys))


def aliases(twin: dict) -> list[str]:
    return [twin["name"].lower().rpartition("/")[2], *twin.get("aliases", [])]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_name_and_alias_finds_its_twin(path: Path) -> None:
    for twin in read(path)["names"]:
        for key in (twin["name"], twin["name"].upper(), *aliases(twin)):
            assert (model(key).name, model(key).kind) == (twin["name"], twin["kind"])


@pytest.mark.parametrize("name", ["", "qwen3", "acme/qwen3-8b", "3-8b", "Qwen/Qwen3-8", 'Qwen3-8B"'])
def test_what_is_not_a_name_finds_nothing(name: str) -> None:
    assert model(name) is None


@pytest.mark.parametrize(
    ("name", "billion"),
    # As published in the model cards.
    [("qwen3-30b-a3b", 3.3), ("qwen3-235b-a22b", 22), ("mixtral-8x7b-v0.1", 12.9), ("mixtral-8x22b-v0.1", 39)],
)
def test_active_parameters_are_as_published(name: str, billion: float) -> None:
    assert model(name).architecture.active_params / 1e9 == pytest.approx(billion, rel=0.02)


def test_gpt_oss_active_parameters_without_the_embedding() -> None:
    shape = model("openai/gpt-oss-20b").architecture
    embedding = shape.vocab_size * shape.hidden_size
    assert (shape.active_params - embedding) / 1e9 == pytest.approx(3.61, rel=0.005)


def test_twins_differ_where_their_file_says_so() -> None:
    thinking, base = model("Qwen/Qwen3-4B-Thinking-2507"), model("Qwen/Qwen3-4B-Base")
    assert (thinking.architecture.max_position, base.architecture.max_position) == (262144, 32768)
    assert (thinking.kind, base.kind) == ("chat", "base")


def test_all_models_at_once_are_those_that_are_found_one_by_one() -> None:
    assert models() == tuple(model(name) for name in model_names())


@pytest.mark.parametrize(
    ("name", "line", "generation"),
    [
        ("Qwen/Qwen2.5-7B", "qwen", 2.5),
        ("Qwen/Qwen3-30B-A3B", "qwen", 3.0),
        ("meta-llama/Llama-3.1-8B", "llama", 3.1),
        ("google/gemma-7b", "gemma", 0.0),
        ("microsoft/Phi-4-mini-instruct", "phi", 4.0),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "deepseek-r1-distill", 0.0),
    ],
)
def test_the_family_tells_line_and_generation(name: str, line: str, generation: float) -> None:
    assert (model(name).line, model(name).generation) == (line, generation)


@pytest.mark.parametrize("word", ["thinking", "reasoning", "r1-distill", "codellama", "coder", "math", "qwq"])
def test_a_name_that_tells_what_a_model_is_made_for_has_a_purpose(word: str) -> None:
    assert all(found.purpose for found in models() if word in found.name.lower())
