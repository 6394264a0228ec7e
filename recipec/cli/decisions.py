"""The decisions of a plan document by their full ids, and how two plans differ."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


_ESTIMATES = ("prediction", "alternatives", "model_runners_up")  # shown as tables elsewhere


def decisions_of(plan: Document) -> dict[str, Document]:
    """Full id ("sft.learning_rate", as the source map writes it) -> decision."""
    return {
        f"{stage['name']}.{decision['id']}": decision for stage in plan["stages"] for decision in stage["decisions"]
    }


def changed_decisions(one: Document, other: Document) -> list[Document]:
    """The decisions with another value, or in one plan only: `a` and `b` have both values and reasons."""
    a, b = decisions_of(one), decisions_of(other)
    rows = [(id, a.get(id), b.get(id)) for id in dict.fromkeys([*a, *b])]
    changed = [row for row in rows if _value(row[1]) != _value(row[2]) and not row[0].endswith(_ESTIMATES)]
    return [{"id": id, "a": _side(old), "b": _side(new)} for id, old, new in changed]


def _value(decision: Document | None) -> Any:
    """What is compared; 1 and True and 1.0 are different, an absent decision differs from a null one."""
    return None if decision is None else (repr(decision["value"]),)


def _side(decision: Document | None) -> Document | None:
    return decision and {name: decision[name] for name in ("value", "because", "origin", "where")}
