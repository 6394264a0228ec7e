"""Scripts of a bundle where the locale is not UTF-8: what they print of rows stops none, and loses no result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from compiling import BASES, good, texts, with_key
from datasets import Dataset
from test_evaluate import METRICS, evaluate

__all__ = ["evaluate"]

pytestmark = pytest.mark.executes

SCRIPTS = [("lora-single", "evaluate.py"), ("lora-single", "prepare_data.py")]
SCRIPTS += [("own loop", "train.py"), ("adapters", "combine.py")]


@pytest.mark.parametrize(("base", "script"), SCRIPTS)
def test_letters_that_the_output_cannot_show_stop_no_script(tmp_path: Path, base: str, script: str) -> None:
    made = with_key(BASES["lora-single"], "train.loop", "torch") if base == "own loop" else BASES[base]
    text = texts(good(tmp_path, made))[script]
    assert "\nimport sys\n" in text
    entry = text[text.index('if __name__ == "__main__":') :]
    told = f"import sys\n\ndef main():\n    print('caf\\u00e9')\n\n{entry}"
    done = subprocess.run(
        [sys.executable, "-c", told], env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    assert done.stdout == b"caf\\xe9\n"


def test_train_py_shows_no_row_before_the_output_can_show_every_letter(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, BASES["lora-single"]))
    shows = bundle["preflight.py"][bundle["preflight.py"].index("def check_rows") :]
    assert shows.index('sys.stdout.reconfigure(errors="backslashreplace")') < shows.index("print(")
    assert "print(" not in bundle["train.py"][: bundle["train.py"].index("check_rows(trainer")]


def test_a_measurement_is_written_before_it_is_printed(evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk of the log, or a pipe that is gone, may stop the script there."""
    (evaluate.RESULTS / "before.json").unlink()
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "before"])
    monkeypatch.setattr(evaluate, "load", lambda *_: (None, None))
    monkeypatch.setattr(evaluate, "prepared", lambda _: Dataset.from_list([{}]))
    monkeypatch.setattr(evaluate, "measure", lambda *_: METRICS)
    monkeypatch.setattr(evaluate, "show", lambda *_: ["café"])

    def broken(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(evaluate, "print", broken, raising=False)
    with pytest.raises(BrokenPipeError):
        evaluate.main()
    written = json.loads((evaluate.RESULTS / "before.json").read_text(encoding="utf-8"))
    assert written["metrics"] == METRICS and written["samples"] == ["café"]
