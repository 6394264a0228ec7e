"""Pairs of plain texts cannot begin with the prompt: the column that asks is in the proposed line."""

from __future__ import annotations

import json
from pathlib import Path

from compiling import BASES, Tables, compiled

ROWS = [
    {"Prompt Text": f"Why {n}?", "response.better": f"So {n}.", "response.worse": f"No {n}.", "annotator": f"a{n % 3}"}
    for n in range(60)
]
NAMED = {"chosen": "response.better", "rejected": "response.worse"}


def helps(folder: Path, code: str, **keys: object) -> list[str]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    recipe: Tables = {**BASES["dpo-full"], "data": {"preferences": "rows.jsonl", **keys}}
    return [
        line for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code == code for line in one.help
    ]


def test_the_line_for_pairs_of_texts_names_the_prompt(tmp_path: Path) -> None:
    (line,) = helps(tmp_path, "E0305")
    assert 'chosen = "response.better", rejected = "response.worse", prompt = "Prompt Text"' in line


def test_pairs_of_texts_without_a_prompt_are_told_which_column_asks(tmp_path: Path) -> None:
    (line,) = helps(tmp_path, "E0304", columns=NAMED)
    assert line.startswith("to read `Prompt Text` as the prompt: `columns = { prompt =")
    assert not helps(tmp_path, "E0304", columns={"prompt": "Prompt Text", **NAMED})
