"""What the compiler says about a recipe: diagnostics with the places they speak of."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Span(NamedTuple):
    """Where text sits: 1-based lines and columns, the end exclusive."""

    line: int
    col: int
    end_line: int
    end_col: int


class Place(Struct, frozen=True):
    """A span in a named file, with the file's text so that a renderer can quote it."""

    file: str  # as the user wrote the path
    span: Span
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.span.line}:{self.span.col}"


class Label(Struct, frozen=True):
    """A place and what to say beside it."""

    place: Place
    message: str = ""


class Diagnostic(Struct, frozen=True):
    """One finding: a headline, the primary label first, and how to mend it."""

    code: str
    title: str
    labels: tuple[Label, ...] = ()
    help: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        return Severity.ERROR if self.code.startswith("E") else Severity.WARNING


class Report:
    """Collects diagnostics; a pass adds what it finds and goes on."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._alike: dict[tuple[str, str, Span | None], list[Diagnostic]] = {}  # what is compared with a new one

    def add(self, diagnostic: Diagnostic) -> None:
        first = diagnostic.labels[0].place.span if diagnostic.labels else None
        alike = self._alike.setdefault((diagnostic.code, diagnostic.title, first), [])
        if diagnostic not in alike:
            alike.append(diagnostic)
            self.diagnostics.append(diagnostic)

    @property
    def has_errors(self) -> bool:
        return any(d.severity is Severity.ERROR for d in self.diagnostics)
