"""The emitted evaluate.py compares only what can be compared, tried function by function."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from compiling import BASES, good, texts
from emitted_modules import load

pytestmark = pytest.mark.executes

METRICS = {"eval_loss": 2.5, "perplexity": 12.2}


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """evaluate.py of a bundle that brings its chat template, with prepared rows and a baseline of them."""
    bundle = texts(good(tmp_path / "recipe", BASES["lora-ddp"]))
    for name in ("evaluate.py", "rows.py", "chat_template.jinja"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    for folder in (module.ROWS.parent, module.RESULTS):
        folder.mkdir(parents=True)
    module.ROWS.write_text("{}\n")
    result = {"metrics": METRICS, "samples": [], "digest": module.digest()}
    (module.RESULTS / "before.json").write_text(json.dumps(result))
    return module


def test_a_baseline_of_the_same_rows_is_used(evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert evaluate.baseline(evaluate.digest()) == METRICS
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "before"])
    evaluate.main()
    assert "not measured again" in capsys.readouterr().out


@pytest.mark.parametrize("changed", ["data/sft/test.jsonl", "evaluate.py", "rows.py", "chat_template.jinja"])
def test_a_baseline_of_something_else_is_not_used(evaluate: ModuleType, tmp_path: Path, changed: str, capsys) -> None:
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    assert evaluate.baseline(evaluate.digest()) == {}
    assert "before.json is not used" in capsys.readouterr().out


def test_without_a_baseline_nothing_is_compared(evaluate: ModuleType) -> None:
    (evaluate.RESULTS / "before.json").unlink()
    assert evaluate.baseline(evaluate.digest()) == {}
