"""What is given: models, GPUs and data that are missing or unreadable, each said at its place; and calm figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key, write_data
from hypothesis import given
from hypothesis import strategies as st

from recipec.facts.sizes import rounded

CHAT, PAIRS = BASES["lora-single"], BASES["dpo-full"]
DEEP = b'{"text":"a","x":' + b"[" * 900 + b"]" * 900 + b"}"

# Base, key, value, files -> the code, the recipe's section that it points at, and a word of what it says.
FINDINGS: dict[str, tuple[Any, str, Any, dict[str, bytes], str, str, str]] = {
    "model": (CHAT, "model.name", "org/nope", {}, "E0301", "model", "org/nope"),
    "like": (CHAT, "model", {"name": "org/nope", "like": "nope"}, {}, "E0301", "model", "nope"),
    "gpu": (CHAT, "hardware.gpu", "rtx-4091", {}, "E0302", "hardware", "rtx-4091"),
    "data": (CHAT, "data.train", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "second source": (CHAT, "data.train", ["chat.jsonl", "nope.jsonl"], {}, "E0303", "data", "nope.jsonl"),
    "preferences": (PAIRS, "data.preferences", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "eval": (CHAT, "data.eval", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "test": (CHAT, "data.test", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "template": (CHAT, "data.template", "./nope.jinja", {}, "E0001", "data", "nope.jinja"),
    "bad template": (CHAT, "data.template", "./a.jinja", {"a.jinja": b"\xff"}, "E0003", "data", "a.jinja"),
    "not JSON": (CHAT, "data.train", "a.jsonl", {"a.jsonl": b"nope"}, "E0304", "data", "a.jsonl:1"),
    "too deep": (CHAT, "data.train", "a.jsonl", {"a.jsonl": DEEP}, "E0304", "data", "a.jsonl:1"),
    "ending": (CHAT, "data.train", "a.xls", {"a.xls": b"a"}, "E0304", "data", "a.xls"),
    "format": (CHAT, "data.train", "a.jsonl", {"a.jsonl": b'{"foo": 1}'}, "E0305", "data", "data.train"),
    "hub": (CHAT, "data.train", {"hub": "org/name"}, {}, "E0305", "data", "data.train"),
    "asked format": (CHAT, "data.format", "preference", {}, "E0305", "data", "data.train"),
    "eval of another format": (CHAT, "data.eval", "pairs.jsonl", {}, "E0305", "data", "data.eval"),
    "folder": (CHAT, "model.name", "./nope", {}, "E0306", "model", "./nope"),
    "config": (CHAT, "model.name", "./m", {"m/config.json": b"{}"}, "E0306", "model", "./m"),
}  # fmt: skip


@pytest.mark.parametrize("case", FINDINGS)
def test_what_is_missing_is_said_at_its_place(tmp_path: Path, case: str) -> None:
    base, key, value, files, code, section, word = FINDINGS[case]
    write_data(tmp_path)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    [finding] = compiled(tmp_path, with_key(base, key, value)).diagnostics
    place = finding.labels[0].place
    assert finding.code == code
    assert place.text.splitlines()[place.span.line - 1].startswith(f"{section} = ")
    assert word in finding.title


def test_everything_missing_is_said_at_once(tmp_path: Path) -> None:
    recipe = with_key(with_key(CHAT, "model.name", "org/nope"), "hardware.gpu", "nope")
    found = compiled(tmp_path, with_key(recipe, "data.train", ["x.jsonl", "y.jsonl"])).diagnostics
    assert sorted(finding.code for finding in found) == ["E0301", "E0302", "E0303", "E0303"]


def test_small_changes_of_the_data_change_nothing(tmp_path: Path) -> None:
    recipe = with_key(BASES["lora-ddp"], "data", {"train": "rows.jsonl"})
    row = {"instruction": "Add.", "output": "x" * 400}
    bundles = []
    for rows, longer in ((1000, 0), (1003, 7)):
        text = json.dumps({**row, "output": row["output"] + "x" * longer}) + "\n"
        write_data(tmp_path)
        (tmp_path / "rows.jsonl").write_text(text * rows)
        bundles.append([(file.path, file.text) for file in compiled(tmp_path, recipe).files])
    assert bundles[0] == bundles[1] != []


@given(st.floats(0, 1e12))
def test_rounding_keeps_two_digits(value: float) -> None:
    found = rounded(value)
    assert found >= 1
    assert len(str(found).rstrip("0")) <= 2
    assert value < 10 or abs(found - value) <= 0.05 * value + 0.5
    assert rounded(found) == found
