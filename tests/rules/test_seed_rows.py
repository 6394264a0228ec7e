"""Each row of the rule books, from `seed-rows.md`: a rule keeps to it, or the table says what became of it."""

from __future__ import annotations

import re
from ast import literal_eval
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from citations import cited, plain

from recipec.rules import RULES, kernels
from recipec.rules.pages import RULE_BOOKS, explain_rule, explain_rule_book

SIZES = (500, 5_000, 50_000, 500_000)


def tables() -> dict[str, list[list[str]]]:
    """Return the rows of each table of the document, by its heading."""
    _, *sections = (Path(__file__).parent / "seed-rows.md").read_text(encoding="utf-8").split("\n## ")
    return {section.splitlines()[0]: list(rows(section)) for section in sections}


def rows(section: str):
    """Yield the cells of a Markdown table, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


HELD, PLANNER, FIXED, SUPERSEDED, UNBUILT = tables().values()


class Expected(NamedTuple):
    """What the cell "value" says: a range of the value or of what is accepted, or one value (low only)."""

    accepts: bool
    low: object
    high: object | None


def expected(cell: str) -> Expected:
    accepts = cell.startswith("accepts ")
    low, _, high = cell.removeprefix("accepts ").partition(" to ")
    return Expected(accepts, literal_eval(low), literal_eval(high) if high else None)


def answers(rule: str, inputs: str):
    """Yield the rule's answers; '*' runs through the data sizes."""
    arguments = literal_eval(f"({inputs},)") if inputs else ()
    for values in product(*(SIZES if value == "*" else (value,) for value in arguments)):
        yield RULES[rule](*values)


@pytest.mark.parametrize(("row", "key", "rule", "inputs", "cell"), HELD, ids=[row for row, *_ in HELD])
def test_the_rule_keeps_to_the_row(row, key, rule, inputs, cell):
    assert RULES[rule].key == key.replace("-", "")  # "-": what it decides has a key of another rule
    want = expected(cell)
    for choice in answers(rule, inputs):
        if want.accepts:
            assert choice.accepts[0] >= want.low and choice.accepts[1] <= want.high
        elif want.high is None:
            assert choice.value == want.low
        else:
            assert want.low <= choice.value <= want.high


@pytest.mark.parametrize("column", ["SFT LoRA", "Full FT", "DPO", "Pre-training"])
@pytest.mark.parametrize("parameter", ["rate", "rank", "alpha", "Batch size", "Warmup", "decay", "Epochs"])
def test_every_cell_of_the_table_of_001_is_listed(parameter, column):
    listed = [row for table in tables().values() for row, *_ in table if row.startswith("001 Key Hyperparameter Rules")]
    assert any(parameter in row and column in row for row in listed)


@pytest.mark.parametrize("book", ["002", "004"])
def test_every_part_of_the_book_is_listed(book):
    listed = "\n".join(row for table in tables().values() for row, *_ in table if row.startswith(book)).lower()
    parts = re.findall(r"^## (.+?)(?::|$)", explain_rule_book(book), re.MULTILINE)
    assert [part for part in parts if part.lower() not in listed] == []


def test_a_row_is_listed_once():
    listed = [row for table in tables().values() for row, *_ in table]
    assert len(listed) == len(set(listed))


def test_every_rule_holds_a_row_or_has_a_page_that_contradicts_one():
    pages = {page for _, page in SUPERSEDED} - set(RULE_BOOKS)
    planned = {rule for _, rule, _ in PLANNER} - {"-"}
    of_books = {id for id, rule in RULES.items() if any(book for book, _ in cited(rule.source))}
    assert {rule for _, _, rule, *_ in HELD} | planned | pages == of_books


@pytest.mark.parametrize(
    ("row", "rule"),
    [*((row, rule) for row, _, rule, *_ in HELD), *((row, rule) for row, rule, _ in PLANNER if rule != "-")],
)
def test_a_rule_cites_the_book_of_its_row(row, rule):
    book, _, part = row.partition(" ")
    there = [plain(name) for number, name in cited(RULES[rule].source) if number == book]
    assert there, f"{rule} does not cite {book}"
    if book in ("002", "004"):  # whose rows are called as on its page
        names = [plain(name) for name in re.split(r", ", part.split(":")[0])]
        assert any(name.startswith(heading) for name in names for heading in there), f"{rule} cites {there}"


@pytest.mark.parametrize(("row", "page"), [*SUPERSEDED, *UNBUILT], ids=lambda text: text)
def test_rows_that_are_not_followed_have_a_page(row, page):
    book = row.split()[0]
    assert explain_rule(page) or page == book


@pytest.mark.parametrize(("row", "reason"), [*((row, reason) for row, _, reason in PLANNER), *FIXED])
def test_rows_that_no_rule_holds_have_a_reason(row, reason):
    assert reason


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("LORA-004", "The rule books disagree"),
        ("SCHED-003", "The rule books contradict each other"),
        ("CKPT-001", "contradicts its own load_best_model_at_end"),
        ("ADPT-001", "an anti-pattern"),
        ("OPT-001", "the start of rule book 003"),
        ("OPT-001", "1e-4 for LoRA is recipec's choice"),
        ("OPT-001", "also learns less"),
        ("BATCH-001", "a smaller batch against instability"),
        ("PREC-001", 'writes "fp16 base"'),
        ("DATA-006", "masks nothing"),
        ("GOAL-001", "contradicts the second"),
        ("STRAT-001", "FSDP2 before ZeRO-2 is recipec's choice"),
        ("STRAT-006", "No rule book speaks of idle GPUs"),
        ("EVAL-003", "the first rows of the evaluation split"),
    ],
)
def test_a_disagreement_is_told_on_its_page(page, words):
    assert words in " ".join(explain_rule(page).split())


def test_what_the_books_promise_and_the_stack_does_not_keep():
    assert kernels.compile_model("none").value is False and "10% to 30%" in explain_rule("PREC-003")
    assert kernels.attention(True).value == "sdpa" and "not among the pinned versions" in explain_rule("PREC-002")
