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


LOSSES = {"a": (2.0, 2), "b": (6.0, 3), "c": (9.0, 3), "d": (2.0, 1), "cut": (0.0, 0)}  # summed, tokens


@pytest.mark.parametrize(
    ("rows", "metrics"),
    [
        ({"a": True, "b": True, "c": False, "d": False}, (8 / 5, 11 / 4, 3.5 / 4)),  # b and d are as likely
        ({"c": True, "a": False, "cut": False}, (3.0, 1.0, 0.0)),
        ({"a": True, "b": True}, (8 / 5, None, None)),
    ],
)
def test_labeled_answers_are_measured_apart_and_against_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, bool], metrics: tuple[float | None, ...]
) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES["kto"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda row, _: (row["name"], None))
    monkeypatch.setattr(module, "summed_loss", lambda _, name, __: LOSSES[name])
    found = module.measure(None, None, [{"name": name, "label": label} for name, label in rows.items()])
    names = ("desirable_loss", "undesirable_loss", "label_auc")
    assert found == pytest.approx(
        {name: value for name, value in zip(names, metrics, strict=True) if value is not None}
    )


def test_rows_without_a_learned_token_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES["kto"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda *_: ([], []))
    monkeypatch.setattr(module, "summed_loss", lambda *_: (0.0, 0))
    with pytest.raises(SystemExit, match=r"no row of .* has a learned token"):
        module.measure(None, None, [{"label": True}])
