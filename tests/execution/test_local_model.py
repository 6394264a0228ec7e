"""Scripts that are started in another folder than the one that a local model's path starts from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load

from recipec.compiler import compile_recipe

ROW = '{"prompt": [], "completion": [], "length": 1}\n'
DEMO = Path(__file__).parents[2] / "recipes" / "cpu-demo.toml"

pytestmark = pytest.mark.executes


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle of a local model with prepared rows; the current folder is another one than the recipe's."""
    folder = tmp_path / "bundle"
    for path, text in texts(compile_recipe(DEMO)).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "data" / "sft").mkdir(parents=True)
    for name, text in (("report.json", "{}"), ("train.jsonl", ROW), ("eval.jsonl", ROW)):
        (folder / "data" / "sft" / name).write_text(text)
    monkeypatch.delenv("DATA_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("script", [["train.py"], ["evaluate.py", "before"], ["prepare_data.py"]], ids=lambda it: it[0])
def test_a_local_model_that_is_not_there_is_said(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: list[str]
) -> None:
    """The libraries would take its path for the name of a model on the Hub."""
    emitted = load(bundle / script[0], monkeypatch)
    monkeypatch.setattr(sys, "argv", script)
    said = f"No model in {tmp_path / 'demo-model'}. Set DATA_ROOT to the folder of the recipe."
    with pytest.raises(SystemExit) as stopped:
        emitted.main()
    assert stopped.value.code == said


def test_a_local_model_without_a_tokenizer_is_said_in_one_line(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = load(bundle / "prepare_data.py", monkeypatch)
    folder = tmp_path / "demo-model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["prepare_data.py"])
    with pytest.raises(SystemExit) as stopped:
        emitted.main()
    fix = "Copy the tokenizer files of the model into this folder."
    assert stopped.value.code == f"{folder} holds no tokenizer. {fix}"


def test_a_local_teacher_is_looked_for_too(tmp_path: Path) -> None:
    from transformers import AutoConfig

    AutoConfig.for_model("qwen2", vocab_size=151_936, architectures=["Qwen2ForCausalLM"]).save_pretrained(
        tmp_path / "teacher"
    )
    for name in ("./teacher", str(tmp_path / "teacher")):
        bundle = texts(good(tmp_path, with_key(BASES["distill"], "alignment.teacher", name)))
        fix = " Set DATA_ROOT to the folder of the recipe." * name.startswith(".")
        for script in ("train.py", "evaluate.py"):
            check = f'if not Path(TEACHER).is_dir():\n        raise SystemExit(f"No model in {{TEACHER}}.{fix}")'
            assert check in bundle[script]
            assert "Path(MODEL).is_dir()" not in bundle[script] and "Path(BASE).is_dir()" not in bundle[script]
