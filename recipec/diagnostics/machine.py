"""Diagnostics as JSON: the model that every other renderer reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from recipec.diagnostics.model import Diagnostic, Label, Severity, Span

SCHEMA_VERSION = 1
_QUOTED_LINES = 3  # at each end of a long span; the middle is left out


def document(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """Return the stable JSON model of `diagnostics`, in their order."""
    errors = sum(d.severity is Severity.ERROR for d in diagnostics)
    return {
        "schema_version": SCHEMA_VERSION,
        "diagnostics": [_diagnostic(d) for d in diagnostics],
        "summary": {"errors": errors, "warnings": len(diagnostics) - errors},
    }


def machine(diagnostics: Sequence[Diagnostic]) -> str:
    """Render `diagnostics` as JSON text."""
    text = json.dumps(document(diagnostics), indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates from data files, as JSON writes them


def _diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "title": diagnostic.title,
        "labels": [_label(label) for label in diagnostic.labels],
        "help": list(diagnostic.help),
        "notes": list(diagnostic.notes),
    }


def _label(label: Label) -> dict[str, Any]:
    place = label.place
    return {
        "file": place.file,
        **place.span._asdict(),
        "message": label.message,
        "source": [{"line": number, "text": text} for number, text in _quoted(place.text, place.span)],
    }


def _quoted(text: str, span: Span) -> list[tuple[int, str]]:
    """Return the numbered lines under `span`: all of a short one, both ends of a long one."""
    lines = text.split("\n")
    numbers = range(span.line, min(span.end_line, len(lines)) + 1)
    if len(numbers) > 2 * _QUOTED_LINES:
        numbers = [*numbers[:_QUOTED_LINES], *numbers[-_QUOTED_LINES:]]
    return [(number, lines[number - 1].removesuffix("\r")) for number in numbers]
