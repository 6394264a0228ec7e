"""How a source is read: which page of a rule book it opens, and what it names on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

PAGE = re.compile(r"docs/rule-books/(00[0-4])\.md(?:, )?")
PUBLIC = re.compile(  # what a reader can open or repeat: a paper, a thread, a version, a site, a run; and what is ours
    r"arXiv (\d{4}\.\d{5})|#\d+|\d+\.\d+|\w\.\w+/|\brun\b|^recipec's choice|^memory and time estimates of the planner"
)


def plain(name: str) -> str:
    """A name as it is compared: without case, hyphens and punctuation."""
    return " ".join(re.sub(r"[-_]", " ", name.lower().replace("&", "and")).strip(" ?:.`").split())


def cited(source: str) -> Iterator[tuple[str, str]]:
    """Yield each part of a source: the number of a rule book, "" for none, and the name that is cited of it.

    `docs/rule-books/001.md, Step 4; Rules; docs/rule-books/003.md, Reference; DPO (arXiv 2305.18290, 2023)`: names
    belong to the page before them, until something else that is public is cited. What is in parentheses says which part
    is meant, for people. "Anti-patterns 1, 2 and 6" are three names.
    """
    book = ""
    for part in re.split(r"; (?![^(]*\))", source):
        opens = PAGE.match(part)
        book = opens[1] if opens else "" if PUBLIC.search(part) else book
        name = PAGE.sub("", re.sub(r"\s*\([^()]*\)", "", part) if book else part)
        yield from ((book, each) for each in numbered(name))


def numbered(name: str) -> list[str]:
    """Anti-patterns of a list, one by one; any other name as it is."""
    several = re.fullmatch(r"(anti-pattern)s? (\d[\d, and-]*)", name, re.IGNORECASE)
    return [f"{several[1]} {number}" for number in re.findall(r"\d+", several[2])] if several else [name]
