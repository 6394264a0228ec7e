"""Diagnostics as one line each: `path:line:col: CODE message`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipec.diagnostics.machine import document
from recipec.diagnostics.model import Diagnostic
from recipec.diagnostics.printable import printable


def concise(diagnostics: Sequence[Diagnostic]) -> str:
    """Render `diagnostics` for editors and grep."""
    return "".join(_line(d) + "\n" for d in document(diagnostics)["diagnostics"])


def _line(diagnostic: dict[str, Any]) -> str:
    text = f"{diagnostic['code']} {diagnostic['title']}"
    if diagnostic["labels"]:
        first = diagnostic["labels"][0]
        text = f"{first['file']}:{first['line']}:{first['col']}: {text}"
    return printable(text)
