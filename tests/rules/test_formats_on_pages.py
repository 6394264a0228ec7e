"""Pages that list formats, or the texts of labels, list those of the rows."""

from __future__ import annotations

import re

from recipec.axes import METHODS, ROW_FORMATS
from recipec.axes.row_formats import FLAG_TEXTS, USUAL_FLAGS
from recipec.diagnostics.codes import explain
from recipec.rules import RULES
from recipec.rules.pages import explain_rule


def _page(rule: str) -> str:
    return RULES[rule].function.__doc__ or ""


def test_the_page_of_what_is_learned_has_every_format_beside_those_that_are_learned_alike() -> None:
    rows = [re.split(", ", cell) for cell in re.findall(r"^ *\| ([a-z-]+(?:, [a-z-]+)*) \| ", _page("DATA-006"), re.M)]
    assert sorted(name for names in rows for name in names) == sorted(ROW_FORMATS)
    assert all(len({ROW_FORMATS[name].loss_on for name in names}) == 1 for names in rows)


def test_the_page_of_the_stages_has_the_formats_of_supervised_rows() -> None:
    (listed,) = re.findall(r"holds supervised rows \(([^)]*)\)", _page("GOAL-002"))
    assert set(listed.split(", ")) == set(METHODS["sft"].formats)


def test_the_page_of_unusable_data_has_every_pair_of_labels() -> None:
    page = explain("E0304") or ""
    told = set(re.findall(r"`([^`]+)` (?:and|or) `([^`]+)`", page))
    assert {pair for name, pair in FLAG_TEXTS.items() if name not in USUAL_FLAGS} <= told


def test_pages_agree_on_what_gets_adapters_and_what_is_measured_of_forgetting() -> None:
    assert "attention and every expert" in " ".join(_page("LORA-004").split())
    assert "adapters on every expert (LORA-004)" in " ".join(_page("MODEL-003").split())
    assert "general_eval_loss" in _page("REPLAY-002")
    assert "with `data.general` the loss on rows of it (REPLAY-002)" in (explain_rule("NOT-009") or "")
