"""Columns that rewards read have one type: judged in the sample, and by prepare_data.py in every row."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, write_data
from test_prepare_data import emitted, prepared, write

from recipec.diagnostics.model import Diagnostic

pytestmark = pytest.mark.executes


def prompts(*odd: Any) -> list[dict[str, Any]]:
    """Prompts whose sums are texts, but for those at the end."""
    return [{"prompt": f"Add {n} and 1.", "sum": value} for n, value in enumerate([*map(str, range(40)), *odd])]


def refused(folder: Path, recipe: Tables, rows: list[dict[str, Any]]) -> list[Diagnostic]:
    """What is told of unusable rows."""
    write_data(folder)
    write(folder / "prompts.jsonl", rows)
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code == "E0304"]


@pytest.mark.parametrize("method", ["grpo", "rloo", "ppo"])
@pytest.mark.parametrize(
    ("odd", "kind"), [(7, "a number"), (["7"], "a list"), ({"is": 7}, "an object"), (True, "a number")]
)
def test_a_column_of_several_types_is_refused_with_a_command(tmp_path: Path, method: str, odd: Any, kind: str) -> None:
    (found,) = refused(tmp_path, BASES[method], prompts(odd))
    assert f"`sum` is {kind} in prompts.jsonl:41, and a text in 40 of 41 rows" in found.labels[0].message
    subprocess.run(found.help[0].split("`")[1], shell=True, cwd=tmp_path, check=True)
    texts = [json.loads(line)["sum"] for line in (tmp_path / "prompts.new.jsonl").read_text().splitlines()]
    assert all(isinstance(text, str) for text in texts) and texts[:40] == [*map(str, range(40))]
    assert not refused(tmp_path, BASES[method], prompts(texts[-1]))


def test_where_most_rows_hold_numbers_others_may_become_numbers(tmp_path: Path) -> None:
    rows = [{"prompt": f"Add {n}.", "sum": n if n < 18 else str(n)} for n in range(20)]
    (found,) = refused(tmp_path, BASES["grpo"], rows)
    assert found.help[0] == "write a number in the other rows, too"


def test_numbers_are_of_one_type(tmp_path: Path) -> None:
    rows = [{"prompt": f"Add {n}.", "sum": n / 2 if n % 2 else n} for n in range(20)]
    assert not refused(tmp_path, BASES["grpo"], rows)


@pytest.mark.parametrize("odd", [7, ["7"]])
def test_every_row_is_judged_as_the_sample_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: Any) -> None:
    script = emitted(tmp_path, BASES["grpo"], monkeypatch)
    write(tmp_path / "prompts.jsonl", prompts(odd))
    with pytest.raises(SystemExit, match=r"line 41: `sum`, which rewards read, is a .* but a text in prompts.jsonl"):
        script.main()
    write(tmp_path / "prompts.jsonl", prompts("7"))
    script.main()
    assert prepared(tmp_path, "grpo/train")
