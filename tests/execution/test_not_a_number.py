"""NaN, which pandas writes where a value is missing, is no value: when a recipe is compiled and when rows are prepared.

No command makes a label, a text or a number of it.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from compiling import BASES, Tables, compiled, with_key
from pyarrow import parquet
from test_prepare_data import emitted, prepared, write

from recipec.diagnostics.model import Diagnostic

pytestmark = pytest.mark.executes
NAN = float("nan")


def errors(folder: Path, made: Tables) -> list[Diagnostic]:
    return [found for found in compiled(folder, made).diagnostics if found.code[0] == "E"]


def rated(label: object, count: int = 40) -> list[dict[str, Any]]:
    """Rows for KTO, of which every fourth has this label."""
    rows = [{"prompt": f"Why {n}?", "completion": f"So {n}.", "label": n % 2} for n in range(count)]
    return [row | {"label": label} if n % 4 == 3 else row for n, row in enumerate(rows)]


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / name)
    elif name.endswith(".json"):
        (folder / name).write_text(json.dumps(rows))
    else:
        write(folder / name, rows)


@pytest.mark.parametrize("name", ["rated.jsonl", "rated.json", "rated.parquet"])
def test_rows_with_such_a_label_are_told_or_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows = [row | {"label": float(row["label"])} for row in rated(NAN)]
    put(tmp_path, name, rows)
    recipe = with_key(BASES["kto"], "data.preferences", name)
    (found,) = errors(tmp_path, recipe)
    assert found.code == "E0304" and "`label` holds no value (null or NaN)" in str(found)
    skips = with_key(recipe, "data.incomplete", "skip")
    assert not errors(tmp_path, skips)
    emitted(tmp_path, skips, monkeypatch).main()
    report = json.loads((tmp_path / "data/kto/report.json").read_text())
    assert report["train"]["incomplete"] == 10 and report["train"]["lacks"] == {"no `label`": 10}


def test_a_row_behind_the_sample_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "rated.jsonl", [row for row in rated(1) if row])
    script = emitted(tmp_path, with_key(BASES["kto"], "data.preferences", "rated.jsonl"), monkeypatch)
    put(tmp_path, "rated.jsonl", [*rated(1), *rated(NAN)[3:4]])
    with pytest.raises(SystemExit, match=r"rated.jsonl, line 41: a label is neither .*None"):
        script.main()


def test_an_input_that_is_missing_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"instruction": f"Sum {n}", "input": f"Of {n}" if n % 2 else NAN, "output": f"So {n}"} for n in range(40)]
    put(tmp_path, "chat.jsonl", rows)
    recipe = with_key(BASES["lora-single"], "data.train", "chat.jsonl")
    assert not errors(tmp_path, recipe)
    emitted(tmp_path, recipe, monkeypatch).main()
    asked = {row["prompt"][0]["content"] for row in prepared(tmp_path, "sft/train")}
    assert asked <= {f"Sum {n}" + f"\n\nOf {n}" * (n % 2) for n in range(40)}


def run(folder: Path, line: str) -> list[dict[str, Any]]:
    """The rows that the command of a line of help makes."""
    command, file = re.findall("`((?:python3|jq) .* > (.*?))`", line)[0]
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)
    return list(map(json.loads, (folder / file).read_text().splitlines()))


def test_no_command_makes_a_label_of_it(tmp_path: Path) -> None:
    rows = [row | {"label": n % 5 + 1} if n % 4 else row | {"label": NAN} for n, row in enumerate(rated(1))]
    put(tmp_path, "rated.jsonl", rows)
    (found,) = errors(tmp_path, with_key(BASES["kto"], "data.preferences", "rated.jsonl"))
    (line,) = [line for line in found.help if "from which number on" in line]
    assert [row["label"] for row in run(tmp_path, line)] == [n % 5 + 1 > 3 for n in range(40) if n % 4]


def test_no_command_makes_a_text_of_it(tmp_path: Path) -> None:
    rows = [{"prompt": f"Why {n}?", "completion": (NAN, 7, "So.", "No.")[n % 4]} for n in range(40)]
    put(tmp_path, "asked.jsonl", rows)
    recipe = with_key(BASES["lora-single"], "data.train", "asked.jsonl")
    (found,) = errors(tmp_path, with_key(recipe, "data.incomplete", "skip"))
    (line,) = [line for line in found.help if "write numbers as text" in line]
    made = [row["completion"] for row in run(tmp_path, line)]
    assert made[1:4] == ["7", "So.", "No."] and not isinstance(made[0], str)
    put(tmp_path, "asked.jsonl", [row for row in rows if row["completion"] != 7])
    assert not errors(tmp_path, with_key(recipe, "data.incomplete", "skip"))
    (found,) = errors(tmp_path, recipe)
    assert "`completion` holds no value (null or NaN)" in str(found) and "as text" not in str(found.help)


@pytest.mark.parametrize("what", ["leave rows without", "value of its own"])
def test_commands_for_rows_without_a_group_know_it(tmp_path: Path, what: str) -> None:
    rows = [{"prompt": f"Why {n}?", "completion": f"So {n}.", "user": n % 7 or NAN} for n in range(40)]
    put(tmp_path, "asked.jsonl", rows)
    recipe = with_key(BASES["lora-single"], "data.train", "asked.jsonl")
    (found,) = errors(tmp_path, with_key(recipe, "data.split", {"group": "user"}))
    (line,) = [line for line in found.help if what in line]
    assert all(row["user"] == row["user"] for row in run(tmp_path, line))
