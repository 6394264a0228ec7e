"""The pages of the rule books: every citation of one names something that its page has, and every id on one exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from citations import PUBLIC, cited, plain
from msgspec.structs import astuple

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES
from recipec.diagnostics.codes import CODES
from recipec.figures import FIGURES
from recipec.rules import RULES, pages
from recipec.rules.checklist import CHECKLIST
from recipec.rules.combinations import COMBINATIONS
from recipec.rules.pages import RULE_BOOKS, explain_rule_book, rule_book_named, rule_books_folder
from recipec.rules.unbuilt import UNBUILT

PAGES = {book: explain_rule_book(book) for book in RULE_BOOKS}
IDS = {*CODES, *RULES, *FIGURES, *(row.id for row in (*COMBINATIONS, *UNBUILT))}


def headings(page: str) -> set[str]:
    """Headings of a page, in full and the parts before and after a colon."""
    found = re.findall(r"^##+ (.+)$", page, re.MULTILINE)
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
    """Yield every source of a rule or a row that may cite a rule book, by the id or name of who has it."""
    yield from ((rule.id, rule.source) for rule in RULES.values())
    yield from ((row.id, row.source) for row in UNBUILT)
    yield from ((row.id, row.citation) for row in COMBINATIONS)
    yield from ((item.text, item.source) for item in CHECKLIST)
    yield from ((row.name, row.source) for row in (*STRATEGIES.values(), *ADAPTATIONS.values(), *METHODS.values()))
    for method in METHODS.values():
        lists = [value for value in astuple(method) if isinstance(value, tuple)]
        yield from ((method.name, row.source) for rows in lists for row in rows if hasattr(row, "source"))


SOURCES = sorted(set(sources()))
CITING = [(who, [*cited(source)]) for who, source in SOURCES]
CITING += [(row.id, [*cited(row.book)]) for row in FIGURES.values()]


@pytest.mark.parametrize(("who", "source"), SOURCES, ids=[f"{who}: {source[:60]}" for who, source in SOURCES])
def test_a_source_is_public_in_every_part(who, source):
    parts = [name for book, name in cited(source) if not book]
    assert [part for part in parts if not PUBLIC.search(part)] == [], f"{who}: neither a page before it nor public"
    assert not re.search(r"rule books? 00|(?<!rule-books/)(?<![,.\d])00[0-4]\b", source)


@pytest.mark.parametrize(("who", "parts"), CITING, ids=[f"{who}: {str(parts)[:60]}" for who, parts in CITING])
def test_a_citation_names_what_the_page_has(who, parts):
    dangling = [(book, name) for book, name in parts if book and not has(book, name)]
    assert not dangling, f"{who} cites {dangling}"


def places(book: str, name: str) -> Iterator[str]:
    """What stands under the headings of that name, and the table rows of that name."""
    page, wanted = PAGES[book], plain(name)
    for found in re.finditer(r"^(##+) (.+)$", page, re.MULTILINE):
        titles = [plain(part) for part in (found[2], *found[2].split(": ", 1))]
        if any(title == wanted or title.startswith(f"{wanted} ") for title in titles):
            end = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE).search(page, found.end())
            yield page[found.end() : end.start() if end else None]
    yield from (row[0] for row in re.finditer(r"^\| (.+?) \|.*$", page, re.MULTILINE) if plain(row[1]) == wanted)


@pytest.mark.parametrize(("who", "parts"), CITING, ids=[f"{who}: {str(parts)[:60]}" for who, parts in CITING])
def test_a_page_names_what_cites_it_where_it_is_cited(who, parts):
    silent = [pair for pair in parts if pair[0] and who in IDS and not any(who in place for place in places(*pair))]
    assert not silent, f"{who} is not named at {silent}"


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
    ("source", "parts"),
    [
        (
            "docs/rule-books/001.md, Step 1 (DPO; one stage); DPO (arXiv 2305.18290, 2023)",
            [("001", "Step 1"), ("", "DPO (arXiv 2305.18290, 2023)")],
        ),
        (
            "docs/rule-books/001.md, Step 4; Anti-patterns 1 and 6; docs/rule-books/003.md, Reference",
            [("001", "Step 4"), ("001", "Anti-pattern 1"), ("001", "Anti-pattern 6"), ("003", "Reference")],
        ),
        ("TRL 1.16 trainer/sft_config.py; Rules", [("", "TRL 1.16 trainer/sft_config.py"), ("", "Rules")]),
        ("docs/rule-books/001.md", [("001", "")]),
    ],
)
def test_what_a_source_cites(source, parts):
    assert [*cited(source)] == parts


def test_a_name_that_a_page_lacks_is_noticed():
    assert not has("001", "Golden rules")
    assert not has("004", "Best Practices")
    assert not has("001", "")
    assert not has("001", "Rule")
    assert not PUBLIC.search("rule book 001, Rules")


def test_an_installed_package_brings_its_own_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "__file__", str(tmp_path / "recipec" / "rules" / "pages.py"))
    (tmp_path / "recipec" / "_rule_books").mkdir(parents=True)
    assert rule_books_folder() == tmp_path / "recipec" / "_rule_books"


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("001", "001"),
        ("rule book 003", "003"),
        ("docs/rule-books/002.md, Anti-patterns", "002"),
        ("rule books", "README"),
        ("005", None),
        ("learning rate", None),
    ],
)
def test_a_rule_book_is_found_by_its_number_and_as_it_is_cited(name: str, page: str | None) -> None:
    assert rule_book_named(name) == page
