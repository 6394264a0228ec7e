"""Answers such as "N/A" are counted, and the command that leaves them out works on every row format."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic

FILLERS = ("N/A", "none.", " TODO ")


def answer(n: int) -> str:
    return FILLERS[n % 3] if n % 10 == 0 else f"Open the page {n}, then press the button {n * n}."


def asked(n: int) -> dict:
    return {"role": "user", "content": f"How do I do {n}?"}


WAYS = {
    "chat": lambda n: {"messages": [asked(n), {"role": "assistant", "content": answer(n)}]},
    "sharegpt": lambda n: {
        "conversations": [{"from": "human", "value": f"How {n}?"}, {"from": "gpt", "value": answer(n)}]
    },
    "instruction": lambda n: {"instruction": f"Do {n}", "input": "", "output": answer(n)},
    "prompt-completion": lambda n: {"prompt": f"How do I do {n}?", "completion": answer(n)},
}


def told(folder: Path, rows: list[dict], file: str = "rows.jsonl", base: str = "lora-single") -> list[Diagnostic]:
    if file.endswith(".csv"):
        with (folder / file).open("w", newline="") as stream:
            out = csv.DictWriter(stream, [*rows[0]])
            out.writeheader()
            out.writerows(rows)
    else:
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return told_of(folder, file, base)


def told_of(folder: Path, file: str, base: str = "lora-single") -> list[Diagnostic]:
    section = "preferences" if base == "dpo-full" else "train"
    recipe = with_key(BASES[base], "data", {section: file, "max_length": 64})
    found = compiled(folder, recipe, only_plan=True).diagnostics
    assert not [one for one in found if one.code.startswith("E03")], found
    return [one for one in found if one.code == "W0564"]


@pytest.mark.parametrize(
    ("way", "file"),
    [(way, "rows.jsonl") for way in WAYS] + [("instruction", "rows.csv"), ("prompt-completion", "rows.csv")],
)
def test_answers_that_only_fill_a_field_are_told_and_left_out(tmp_path: Path, way: str, file: str) -> None:
    rows = [WAYS[way](n) for n in range(60)]
    (found,) = told(tmp_path, rows, file)
    assert found.title.startswith("6 of 60 sampled answers of data.train only fill a field: ")
    (command,) = re.findall("`(python3 .*)`", found.help[0])
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    (new,) = tmp_path.glob("rows.new.*")
    kept = [json.loads(row) for row in new.read_text().splitlines()] if new.suffix == ".jsonl" else None
    assert kept is None or kept == [row for n, row in enumerate(rows) if n % 10]
    assert len(new.read_text().splitlines()) == 54 + (kept is None)
    assert not told_of(tmp_path, new.name)


def test_a_user_may_say_such_a_word(tmp_path: Path) -> None:
    rows = [WAYS["chat"](n) for n in range(60)]
    for n, row in enumerate(rows):
        more = [{"role": "user", "content": "N/A"}, {"role": "assistant", "content": f"Then try {n}."}]
        row["messages"] += more * (n % 10 == 5)
    (found,) = told(tmp_path, rows)
    (command,) = re.findall("`(python3 .*)`", found.help[0])
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    kept = [json.loads(row) for row in (tmp_path / "rows.new.jsonl").read_text().splitlines()]
    assert kept == [row for n, row in enumerate(rows) if n % 10]


def test_classes_and_rejected_answers_may_be_such_words(tmp_path: Path) -> None:
    classes = [
        {"prompt": f"Which defect is in {n}?", "completion": ("none", "crack", "dent")[n % 3]} for n in range(60)
    ]
    assert not told(tmp_path, classes)
    pairs = [{"prompt": f"How {n}?", "chosen": f"Press {n}.", "rejected": answer(n)} for n in range(60)]
    assert not told(tmp_path, pairs, base="dpo-full")
    assert told(tmp_path, [row | {"chosen": row["rejected"], "rejected": "x"} for row in pairs], base="dpo-full")
