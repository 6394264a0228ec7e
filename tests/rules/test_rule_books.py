"""The pages of the rule books: every citation of one names something that its page has, and every id on one exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from recipec.axes import METHODS, STRATEGIES
from recipec.diagnostics.codes import CODES
from recipec.figures import FIGURES
from recipec.rules import RULES
from recipec.rules.checklist import CHECKLIST
from recipec.rules.combinations import COMBINATIONS
from recipec.rules.pages import RULE_BOOKS, explain_rule_book, rule_books_folder
from recipec.rules.unbuilt import UNBUILT

PAGES = {book: explain_rule_book(book) for book in RULE_BOOKS}
IDS = {*CODES, *RULES, *FIGURES, *(row.id for row in (*COMBINATIONS, *UNBUILT))}
BOOK = re.compile(r"(?<![\w.-])(00[0-4])\b(?:\.md)?")  # a number of its own: not that of OPT-001, not 0.001
LEADS_OVER = ("", "and", "against", "against it")  # what stands between two citations
MISNAMED = {("003", "Decision Tree"), ("004", "Best Practices")}  # names that the rule books do not have


def plain(name: str) -> str:
    """A name as it is compared: without case, hyphens and punctuation."""
    return " ".join(re.sub(r"[-_]", " ", name.lower().replace("&", "and")).strip(" ?:.`").split())


def cited(source: str) -> Iterator[tuple[str, str]]:
    """Yield the number of each rule book in a source, with each name that is cited of it, "" where there is none.

    Names stand between commas: "docs/rule-books/001.md, Rules, Step 4; 003, Reference". What is in parentheses says
    which part is meant, for people. "Anti-Patterns 1, 2 and 6" are three names.
    """
    _, *parts = BOOK.split(re.sub(r"\s*\([^)]*\)", "", source))
    for book, text in zip(parts[::2], parts[1::2], strict=True):
        names = [name.strip(" :") for name in re.split(r",(?!\s*\d)", text.split(";")[0])]
        names = [name for name in names if name not in LEADS_OVER and not name.startswith("docs/")]
        yield from ((book, each) for name in names or [""] for each in numbered(name))


def numbered(name: str) -> list[str]:
    """Anti-patterns of a list, one by one; any other name as it is."""
    several = re.fullmatch(r"(anti-pattern)s? (\d[\d, and-]*)", name, re.IGNORECASE)
    return [f"{several[1]} {number}" for number in re.findall(r"\d+", several[2])] if several else [name]


def headings(page: str) -> set[str]:
    """Headings of a page, in full and the parts before and after a colon."""
    found = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {plain(part) for heading in found for part in (heading, *heading.split(": ", 1))}


def tables(page: str) -> set[str]:
    """Names of tables, which are bold at the start of a line, and the first cells of their rows."""
    found = [*re.findall(r"^\*\*(.+?)\*\*", page, re.MULTILINE), *re.findall(r"^\| (.+?) \|", page, re.MULTILINE)]
    return {plain(name) for name in found}


def has(book: str, name: str) -> bool:
    """Whether a page has the name; a heading may go on after it."""
    wanted = plain(name)
    return wanted in tables(PAGES[book]) or any(
        heading == wanted or heading.startswith(f"{wanted} ") for heading in headings(PAGES[book])
    )


def sources() -> Iterator[tuple[str, str]]:
    """Yield everything that may cite a rule book, by the id or name of who does."""
    yield from ((rule.id, rule.source) for rule in RULES.values())
    yield from ((row.id, row.source) for row in UNBUILT)
    yield from ((row.id, row.citation) for row in COMBINATIONS)
    yield from ((row.id, row.book) for row in FIGURES.values())
    yield from ((item.text, item.source) for item in CHECKLIST)
    yield from ((row.name, row.source) for row in STRATEGIES.values())
    for method in METHODS.values():
        lists = [value for field in fields(method) if isinstance(value := getattr(method, field.name), tuple)]
        yield from ((f"{method.name}", row.source) for rows in lists for row in rows if hasattr(row, "source"))


SOURCES = sorted(set(sources()))


@pytest.mark.parametrize(("who", "source"), SOURCES, ids=[f"{who}: {source[:60]}" for who, source in SOURCES])
def test_a_citation_names_what_the_page_has(who, source):
    dangling = [pair for pair in cited(source) if pair[1] and pair not in MISNAMED and not has(*pair)]
    assert not dangling, f"{who} cites {dangling}"


def test_a_citation_of_a_page_names_a_part_of_it():
    rows = [(who, name) for who, source in SOURCES if "docs/rule-books/" in source for _, name in cited(source)]
    assert [who for who, name in rows if not name] == []


@pytest.mark.parametrize("book", RULE_BOOKS)
def test_a_page_names_every_rule_and_figure_that_cites_it(book):
    citing = {who for who, source in SOURCES if who in IDS and book in dict(cited(source))}
    assert {id for id in citing if id not in PAGES[book]} == set()


@pytest.mark.parametrize("page", [*RULE_BOOKS, "README"])
def test_ids_on_a_page_exist(page):
    kinds = "|".join(sorted({id.rpartition("-")[0] for id in IDS if "-" in id}))
    named = set(re.findall(rf"\b(?:(?:{kinds})-\d{{3}}|[EW]\d{{4}})\b", explain_rule_book(page)))
    assert named <= IDS


@pytest.mark.parametrize("page", [*RULE_BOOKS, "README"])
def test_tables_have_as_many_cells_in_every_row(page):
    for table in re.findall(r"(?:^\|.*\|\n)+", explain_rule_book(page), re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table.splitlines()[0]


def test_every_page_has_a_number_and_is_in_the_index():
    index = explain_rule_book("README")
    assert {path.stem for path in rule_books_folder().glob("*.md")} == {*RULE_BOOKS, "README"}
    assert all(f"[{book}]({book}.md)" in index for book in RULE_BOOKS)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("rule book 001, Step 2 (truncation=True), against it: 001, Rules", [("001", "Step 2"), ("001", "Rules")]),
        ("docs/rule-books.md, 001, Step 1 (DPO); DPO (arXiv 2305.18290, 2023)", [("001", "Step 1")]),
        (
            "docs/rule-books/001.md, Anti-patterns 1 and 6; OPT-001",
            [("001", "Anti-pattern 1"), ("001", "Anti-pattern 6")],
        ),
        ("rule books 001 and 003 (LoRA first)", [("001", ""), ("003", "")]),
        ("a loss of 0.001, TRL 1.16 SFTConfig", []),
    ],
)
def test_what_a_source_cites(source, names):
    assert [(book, name.replace("-Pattern", "-pattern")) for book, name in cited(source)] == names


def test_a_name_that_a_page_lacks_is_noticed():
    assert not has("001", "Golden rules")
    assert not has("004", "Best Practices")
