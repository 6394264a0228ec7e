"""What OpenAI writes into `refusal` is an answer: it is never left out without a word."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from compiling import BASES, compiled, with_key

from recipec.cli.group import recipec
from recipec.diagnostics.model import Diagnostic

REFUSED = "I cannot do that."


def talk(n: int, **answer: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"Cancel {n}."}, {"role": "assistant", **answer}]}


def rows(folder: Path, content: str | None) -> None:
    """Forty rows, of which every third refuses."""
    answers = [{"content": content, "refusal": REFUSED}, {"content": "Done.", "refusal": None}, {"content": "Done."}]
    (folder / "rows.jsonl").write_text("".join(json.dumps(talk(n, **answers[n % 3])) + "\n" for n in range(40)))


def found(folder: Path, file: str = "rows.jsonl") -> list[Diagnostic]:
    recipe = with_key(BASES["lora-single"], "data", {"train": file, "max_length": 64})
    return list(compiled(folder, recipe, only_plan=True).diagnostics)


@pytest.mark.parametrize(("content", "codes"), [(None, ["E0304"]), ("", ["W0542", "W0516"])])
def test_refusals_are_made_the_content_by_a_command(tmp_path: Path, content: str | None, codes: list[str]) -> None:
    rows(tmp_path, content)
    told = {one.code: line for one in found(tmp_path) for line in one.help if "to learn what `refusal` says" in line}
    assert {*told} == {*codes}
    for line in told.values():
        subprocess.run(["bash", "-c", re.findall("`(python3 .*)`", line)[0]], cwd=tmp_path, check=True)
        written = [json.loads(line) for line in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
        assert written[:3] == [talk(0, content=REFUSED), talk(1, content="Done."), talk(2, content="Done.")]
        assert {one.code for one in found(tmp_path, "rows.new.jsonl")}.isdisjoint({"E0304", "W0542", "W0516"})


@pytest.mark.parametrize("content", [None, ""])
def test_init_leaves_no_refusals_out_by_itself(tmp_path: Path, content: str | None) -> None:
    rows(tmp_path, content)
    flags = ["init", str(tmp_path / "new"), "--data", str(tmp_path / "rows.jsonl"), "--gpu", "h100", "--yes"]
    CliRunner().invoke(recipec, flags)
    text = (tmp_path / "new/recipe.toml").read_text()
    assert "# to learn what `refusal` says" in text and not re.search("^incomplete", text, re.MULTILINE)
    assert bool(re.search("^# or incomplete", text, re.MULTILINE)) == (content is None)


def test_explain_tells_how_refusals_are_learned() -> None:
    assert "make them the content" in CliRunner().invoke(recipec, ["explain", "refusal"]).output
