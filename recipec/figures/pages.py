"""Figures as people read them: the page of one, the row of a list, the line on a rule's page."""

from __future__ import annotations

from recipec.figures import FIGURES
from recipec.figures.figure import Figure, Ours, shown, verdict


def explain_figure(id: str) -> str | None:
    """Return the page of a figure such as FIG-307, in any case, as Markdown; None if there is none."""
    row = FIGURES.get(id.upper())
    return row and _page(row, row())


def _page(row: Figure, ours: Ours) -> str:
    lines = [
        f"- the book: {row.states} ({row.book})",
        f"- recipec: {ours_text(row, ours)}",
        f"- verdict: {verdict(row.stated, ours.value)}",
        f"- computed: {ours.how}",
        f"- recipec {row.does}",
        *([f"- rules that rely on it: {', '.join(row.rules)}"] if row.rules else ()),
    ]
    return f"# {row.id}: {row.states}\n\n{row.because}\n\n" + "\n".join(lines) + "\n"


def ours_text(row: Figure, ours: Ours) -> str:
    """Our number with its unit."""
    if ours.value is None:
        return ours.shown or "no number"
    return shown(ours.value, row.stated.unit)


def figure_rows() -> list[dict[str, str]]:
    """All figures in the order of their ids, both numbers in each row."""
    computed = [(row, row()) for row in sorted(FIGURES.values(), key=lambda row: row.id)]
    return [
        {
            "id": row.id,
            "states": row.states,
            "recipec": ours_text(row, ours),
            "verdict": verdict(row.stated, ours.value),
            "book": row.book,
        }
        for row, ours in computed
    ]


def figures_of_rule(id: str) -> str:
    """The line on a rule's page that names the figures it relies on; empty where there are none."""
    named = [f"{row.id} ({row.states})" for row in FIGURES.values() if id.upper() in row.rules]
    return f"- rule book figures: {', '.join(named)}\n" if named else ""
