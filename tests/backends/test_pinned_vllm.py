"""A commit that the recipe pins, where vLLM writes the answers: what TRL does not hand on is said."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.planner.advice.prepared_ahead import ONLY_WHAT_IS_READ

COMMIT = "0123456789012345678901234567890123456789"
SAID = "train reads `config.json`, the tokenizer and any code of the newest commit"
ENGINES = {"vllm": 1, "vllm-server": 2, "transformers": 1}


def emitted(folder: Path, engine: str, revision: str | None, adaptation: str = "auto") -> dict[str, str]:
    recipe = with_key(BASES["grpo"], "alignment.generation.engine", engine)
    recipe = with_key(recipe, "train.adaptation", adaptation)
    recipe = with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": ENGINES[engine]})
    return texts(good(folder, with_key(recipe, "model.revision", revision) if revision else recipe))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_loaded_from_another_commit_is_said(tmp_path: Path, engine: str) -> None:
    files = emitted(tmp_path, engine, COMMIT)
    beside = engine == "vllm"
    assert (SAID in files["README.md"]) == beside
    download = f"--revision {COMMIT} --local-dir model {ONLY_WHAT_IS_READ}\n"
    assert (download in files["README.md"]) == beside
    assert ("TRL gives vLLM no revision" in files["train.py"]) == beside
    assert (COMMIT in files.get("serve_answers.py", "")) == (engine == "vllm-server")


def test_nothing_is_said_where_no_commit_is_pinned(tmp_path: Path) -> None:
    files = emitted(tmp_path, "vllm", None)
    assert SAID not in files["README.md"] and "no revision" not in files["train.py"]


@pytest.mark.parametrize(
    ("adaptation", "loading"),
    [("lora", "Training, evaluation and merging load"), ("full", "Training and evaluation load")],
)
def test_what_loads_the_pinned_commit_is_what_the_bundle_has(tmp_path: Path, adaptation: str, loading: str) -> None:
    """Full fine-tuning has no adapter to merge."""
    files = emitted(tmp_path, "vllm", COMMIT, adaptation)
    assert f"\n{loading} the pinned commit of " in files["README.md"]
    assert ("merge_adapter.py" in files) is (adaptation == "lora")


def test_trl_gives_vllm_no_revision() -> None:
    """Where it does, README.md and train.py need not speak of it."""
    spec = find_spec("trl")
    if spec is None or spec.origin is None:
        pytest.skip("TRL is not installed")
    assert "revision" not in (Path(spec.origin).parent / "generation" / "vllm_generation.py").read_text()
