"""The other renderers, the code table and its pages, and the silencing of warnings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from recipec.diagnostics import codes
from recipec.diagnostics.allow import silence
from recipec.diagnostics.codes import CODES, explain
from recipec.diagnostics.concise import concise
from recipec.diagnostics.human import human, human_from
from recipec.diagnostics.machine import machine
from recipec.diagnostics.model import Diagnostic, Label, Place, Span

PLACE = Place("r.toml", Span(2, 1, 2, 2), "x = 1\na = 1\n")
ERROR = Diagnostic("E0203", "unknown key `a`", (Label(PLACE, "not a key"),), ("remove it",), ("a note",))
WARNING = Diagnostic("W0503", "idle")


def test_the_human_text_follows_from_the_json() -> None:
    assert human_from(json.loads(machine([ERROR, WARNING]))) == human([ERROR, WARNING])


def test_the_json_names_places_and_counts() -> None:
    model = json.loads(machine([ERROR, WARNING]))
    assert model["schema_version"] == 1
    assert model["summary"] == {"errors": 1, "warnings": 1}
    assert model["diagnostics"][0]["labels"] == [
        {
            "file": "r.toml",
            "line": 2,
            "col": 1,
            "end_line": 2,
            "end_col": 2,
            "message": "not a key",
            "source": [{"line": 2, "text": "a = 1"}],
        }
    ]


def test_names_that_are_not_text_can_be_printed() -> None:
    finding = Diagnostic("E0305", "the column `\ud800`")
    assert json.loads(machine([finding]).encode())["diagnostics"][0]["title"] == finding.title
    assert concise([finding]).encode() and human([finding]).encode()


def test_concise_is_one_line_for_each() -> None:
    assert concise([ERROR, WARNING]) == "r.toml:2:1: E0203 unknown key `a`\nW0503 idle\n"


def test_an_allowed_warning_is_silent_and_an_unused_one_is_told() -> None:
    kept = silence([WARNING], {"W0503": PLACE, "W0501": PLACE}, complete=True)
    assert [diagnostic.code for diagnostic in kept] == ["W0502"]


def test_what_was_not_looked_at_is_not_called_unused() -> None:
    kept = silence([ERROR, WARNING], {"W0503": PLACE, "W0501": PLACE}, complete=False)
    assert [diagnostic.code for diagnostic in kept] == ["E0203"]


def test_the_warning_about_allow_can_be_allowed_too() -> None:
    assert silence([], {"W0501": PLACE, "W0502": PLACE}, complete=True) == []


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_page_for_users(code: str) -> None:
    page = explain(code.lower())
    assert page and page.startswith(f"# {code}: {CODES[code]}\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["What", "Why", "Example", "Fix"]


def test_no_page_is_left_over() -> None:
    pages = Path(codes.__file__).parent / "pages"
    assert {path.stem for path in pages.glob("*.md")} == set(CODES)
    assert explain("E9999") is None


def test_every_code_in_the_source_is_in_the_table() -> None:
    root = Path(codes.__file__).parents[1]
    used = {code for path in root.rglob("*.py") for code in re.findall(r'"([EW]0\d{3})"', path.read_text())}
    assert used == set(CODES)
