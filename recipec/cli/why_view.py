"""The answers of `recipec why` for people, from their JSON models."""

from __future__ import annotations

from typing import Any

from recipec.cli.color import dim, strong
from recipec.diagnostics.printable import printable
from recipec.units import value_text

_SHOWN_LINES = 12

Document = dict[str, Any]


def line_text(document: Document) -> str:
    """The line, the decisions on it nearest first, and what put the file there."""
    head = [f"{strong(printable(document['file']))}:{document['line']}", f"  {printable(document['text'].strip())}"]
    blocks = ["\n".join([*head, *_history(document)]), *map(decision_text, document["decisions"])]
    placed = ", ".join(_assignment(decision) for decision in document["file_decided_by"])
    if placed and document["kind"] == "decided":
        blocks.append(dim(f"the whole file is here because of {placed}"))
    return "\n\n".join(blocks) + "\n"


def _history(document: Document) -> list[str]:
    """What the user did to the line, and where its text comes from."""
    if document["kind"] == "yours":
        return ["you added this line; a rebuild keeps it"]
    lines = [f"you changed this line; it was built as: {printable(document['built']['text'].strip())}"]
    lines = lines if document["edited"] else []
    if document["kind"] == "fixed":
        chosen = ", ".join(_assignment(decision) for decision in document["decisions"])
        lines.append(f"fixed text of the template{f', chosen by {chosen}' if chosen else ': nothing decides it'}")
    return lines


def key_text(document: Document) -> str:
    """The decision in each stage, with the lines it reaches."""
    return "\n\n".join(f"{decision_text(each)}{_reach(each)}" for each in document["decisions"]) + "\n"


def decision_text(decision: Document) -> str:
    """A decision with its reason, where to change and watch it, and the tree of what it rests on."""
    rows = [
        ("because", decision["because"]),
        ("dissent", decision["dissent"]),
        ("rule", decision["rule"] and f"{decision['rule']} (recipec explain {decision['rule']})"),
        ("source", decision["source"]),
        ("watch", decision["watch"]),
        ("change", decision["key"] and f"`{decision['key']}` in the recipe{_set_at(decision)}"),
    ]
    lines = [strong(printable(_assignment(decision))), *(f"  {name:<8} {printable(v)}" for name, v in rows if v)]
    return "\n".join([*lines, *(["  from", *_tree(decision["from"], "    ")] if decision["from"] else [])])


def _set_at(decision: Document) -> str:
    return f", set at {decision['where']}" if decision["where"] else ""


def _tree(inputs: list[Document], margin: str) -> list[str]:
    lines = []
    for decision in inputs:
        source = f" [{decision['source']}]" if decision["origin"] == "catalog" and decision["source"] else ""
        line = printable(f"{_assignment(decision)}: {decision['because']}")
        lines.append(f"{margin}{line}{dim(printable(source))}")
        lines += _tree(decision["from"], margin + "  ")
    return lines


def _assignment(decision: Document) -> str:
    return f"{decision['id']} = {value_text(decision['value'])}"


def _reach(decision: Document) -> str:
    lines = ""
    if decision["leads_to"]:
        lines += f"\n  decides  {', '.join(decision['leads_to'])}"
    places = [printable(_place(run)) for run in decision["lines"]]
    if places:
        more = f" and {len(places) - _SHOWN_LINES} more places" if len(places) > _SHOWN_LINES else ""
        lines += f"\n  lines    {', '.join(places[:_SHOWN_LINES])}{more}"
    return lines


def _place(run: Document) -> str:
    return f"{run['file']}:{run['first']}" + (f"-{run['last']}" if run["last"] > run["first"] else "")
