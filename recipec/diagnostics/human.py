"""Diagnostics for people: the headline, the quoted source with its underlines, and how to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from recipec.diagnostics.machine import document
from recipec.diagnostics.model import Diagnostic
from recipec.diagnostics.printable import printable, width

_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "other": "\x1b[1;34m"}
_RESET = "\x1b[0m"
_MOST = 240  # characters of a quoted line; a longer one is cut around its underline
_MOST_SAID = 2000  # characters of a title, a message or a help, which may name a key as long as a file
_Quoted = tuple[int, str, list[dict[str, Any]]]  # number and text of a line, and the labels that underline it


def human(diagnostics: Sequence[Diagnostic], *, color: bool = False) -> str:
    """Render `diagnostics` with their sources and a summary line; ends with a newline, empty when there are none."""
    return human_from(document(diagnostics), color=color)


def human_from(model: dict[str, Any], *, color: bool = False) -> str:
    """Render the JSON model of `machine.document`."""
    if not model["diagnostics"]:
        return ""
    blocks = [_block(diagnostic, _Paint(color)) for diagnostic in model["diagnostics"]]
    return "\n\n".join([*blocks, summary(**model["summary"])]) + "\n"


def summary(errors: int, warnings: int) -> str:
    """Return "1 error, 2 warnings", leaving out what there is none of."""
    counts = [(errors, "error"), (warnings, "warning")]
    return ", ".join(f"{n} {noun}{'s' * (n != 1)}" for n, noun in counts if n)


class _Paint:
    """Colors text when asked to; never the only carrier of a meaning."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, tone: str = "other") -> str:
        return f"{_COLOURS[tone]}{text}{_RESET}" if self.on else text


def _block(diagnostic: dict[str, Any], paint: _Paint) -> str:
    tone = diagnostic["severity"]
    lines = [paint(f"{tone}[{diagnostic['code']}]", tone) + f": {_said(diagnostic['title'])}"]
    gutter = max((len(str(label["end_line"])) for label in diagnostic["labels"]), default=1)
    for index, (file, labels) in enumerate(_by_file(diagnostic["labels"])):
        lines += _snippet(file, labels, gutter, paint, tone, first=index == 0)
    for kind in ("help", "notes"):
        word = kind.removesuffix("s")
        lines += [_remark(word, text, gutter, paint) for text in diagnostic[kind]]
    return "\n".join(lines)


def _by_file(labels: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group the labels by file, the primary label's file first; the primary is marked for its carets."""
    marked = [{**label, "mark": "-" if index else "^"} for index, label in enumerate(labels)]
    files = list(dict.fromkeys(label["file"] for label in marked))
    return [(file, [label for label in marked if label["file"] == file]) for file in files]


def _snippet(file: str, labels: list[dict[str, Any]], gutter: int, paint: _Paint, tone: str, first: bool) -> list[str]:
    arrow = "-->" if first else ":::"
    head = labels[0]
    bar = paint(f"{' ' * gutter} |")
    lines = [paint(f"{' ' * gutter}{arrow}") + f" {printable(file)}:{head['line']}:{head['col']}", bar]
    previous = None
    for number, text, underlines in map(_cut, _rows(labels)):
        if previous is not None and number > previous + 1:
            lines.append(paint("..."))
        lines.append(f"{paint(f'{number:>{gutter}} |')} {printable(text)}".rstrip())
        lines += [f"{bar} {_underline(text, label, number, paint, tone)}" for label in underlines]
        previous = number
    return lines


def _rows(labels: list[dict[str, Any]]) -> list[_Quoted]:
    """Return each quoted line once, with the labels that underline it."""
    quoted = sorted(
        ((line["line"], line["text"], label) for label in labels for line in label["source"]), key=lambda q: q[0]
    )
    groups = groupby(quoted, key=lambda q: q[0])
    return [(number, rows[0][1], [row[2] for row in rows]) for number, group in groups if (rows := list(group))]


def _cut(row: _Quoted) -> _Quoted:
    """Keep of a long line what is around the start of its primary underline, and move the underlines with it."""
    number, text, labels = row
    if len(text) <= _MOST:
        return row
    starts = [label["col"] - 1 for label in labels if label["line"] == number]
    start = max(0, (starts or [0])[0] - _MOST // 4)
    before, after = "…" * (start > 0), "…" * (start + _MOST < len(text))
    shown = f"{before}{text[start : start + _MOST]}{after}"
    shift, last = start - len(before), len(shown)
    moved = [_shifted(label, number, shift, last) for label in labels]
    return number, shown, moved


def _shifted(label: dict[str, Any], number: int, shift: int, last: int) -> dict[str, Any]:
    """The label on the cut line; what it underlines beyond the cut is left out."""
    at = {"line": "col", "end_line": "end_col"}
    columns = {col: min(max(label[col] - shift, 1), last + 1) for line, col in at.items() if label[line] == number}
    return {**label, **columns}


def _underline(text: str, label: dict[str, Any], number: int, paint: _Paint, tone: str) -> str:
    """Draw the carets under the part of line `number` that the label spans; its message follows on the last line."""
    start = label["col"] - 1 if number == label["line"] else len(text) - len(text.lstrip())
    end = label["end_col"] - 1 if number == label["end_line"] else len(text)
    before, under = printable(text[:start]), printable(text[start:end])
    carets = label["mark"] * max(1, width(under))
    message = f" {_said(label['message'])}" if number == label["end_line"] and label["message"] else ""
    return " " * width(before) + paint(carets + message, tone if label["mark"] == "^" else "other")


def _said(text: str) -> str:
    return printable(text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}…")


def _remark(word: str, text: str, gutter: int, paint: _Paint) -> str:
    """Print one help or note; further lines hang under the first."""
    first, *more = (_said(line) for line in text.split("\n"))
    margin = " " * gutter
    hang = " " * (gutter + len(word) + 5)
    return "\n".join([f"{paint(f'{margin} =')} {word}: {first}", *(hang + line for line in more)])
