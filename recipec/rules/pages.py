"""The explanation page of a rule, a known-bad combination, something not built, or a rule book, as Markdown."""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path

from recipec.axes import METHODS
from recipec.rules.combination_reads import rows_that_read
from recipec.rules.combinations import COMBINATIONS, BadCombination
from recipec.rules.core import RULES, Rule
from recipec.rules.defaults import table_page
from recipec.rules.unbuilt import UNBUILT, Unbuilt

RULE_BOOKS = ("000", "001", "002", "003", "004")
_INDEX = "README"
_BOOK_NAME = re.compile(
    r"(?:docs/)?(?P<kind>rule[ -]?books?)?[ /-]*(?P<number>00[0-4])?(?:\.md)?(?:,.*)?", re.IGNORECASE
)


def rule_books_folder() -> Path:
    """Where the pages of the rule books are: inside an installed package, else in docs/ of the repository."""
    package = Path(__file__).parent.parent
    installed = package / "_rule_books"
    return installed if installed.is_dir() else package.parent / "docs" / "rule-books"


def rule_book_named(name: str) -> str | None:
    """Return the page that `001`, `rule book 001` or a citation of it means, README for `rule books`, or None."""
    found = _BOOK_NAME.fullmatch(name.strip())
    return found and (found["number"] or (_INDEX if found["kind"] else None))


def explain_rule_book(page: str) -> str:
    """Return a page of the rule books: one of RULE_BOOKS, or README."""
    return (rule_books_folder() / f"{page}.md").read_text(encoding="utf-8")


def explain_rule(id: str) -> str | None:
    """Return the page of an id such as OPT-001, BAD-002 or NOT-001, in any case; None if there is none."""
    id = id.upper()
    if id in RULES:
        return _rule_page(RULES[id])
    if bad := next((row for row in COMBINATIONS if row.id == id), None):
        return _combination_page(bad)
    row = next((row for row in UNBUILT if row.id == id), None)
    return row and _unbuilt_page(row)


def explain_decision(id: str) -> tuple[str, str] | None:
    """Return the id and the page of the rule that makes a decision, `loader_workers` or `sft.loader_workers`."""
    stage, _, name = id.strip().lower().rpartition(".")
    found = [rule for rule in RULES.values() if rule.decides == name and stage in ("", *METHODS)]
    return (found[0].id, "\n".join(map(_rule_page, found))) if found else None


def _rule_page(rule: Rule) -> str:
    title, _, body = cleandoc(rule.function.__doc__ or "").partition("\n")
    lines = [
        f"- Sets: `{rule.decides}`",
        f"- Depends on: {', '.join(f'`{name}`' for name in rule.inputs) or 'nothing'}",
        f"- Override with: `{rule.key}`" if rule.key else "- Cannot be overridden",
        *([f"- Combinations that depend on it: {', '.join(rows_that_read(rule.combined))}"] if rule.combined else []),
        f"- Watch: {rule.watch}",
        f"- Sources: {rule.source}",
    ]
    text = "\n\n".join(filter(None, (body.strip(), _defaults(rule))))
    return f"# {rule.id}: {title}\n\n{text}\n\n" + "\n".join(lines) + "\n"


def _defaults(rule: Rule) -> str:
    """The answers that the methods' rows hold, as a table; the first line of a method that applies decides."""
    if not rule.defaults:
        return ""
    head = ["| method | when | value | accepted | source |", "|---|---|---|---|---|"]
    rows = [line for method in METHODS.values() for line in table_page(method, getattr(method, rule.defaults))]
    return "\n".join([*head, *rows])


def _combination_page(row: BadCombination) -> str:
    verdict = "Not supported" if row.refused else "Allowed with a warning (W0504)"
    return (
        f"# {row.id}: {row.title}\n\n{verdict}: {row.why}.\n\n- Use instead: {row.instead}\n- Sources: {row.citation}\n"
    )


def _unbuilt_page(row: Unbuilt) -> str:
    return (
        f"# {row.id}: {row.title}\n\nNot supported yet: {row.why}.\n\n"
        f"- Use instead: {row.instead}\n- Sources: {row.source}\n"
    )
