"""Lay one recipe over another: tables merge key by key, everything else replaces."""

from __future__ import annotations

from typing import Any

from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.recipe.document import Document, Located
from recipec.recipe.exclusive import rivals
from recipec.recipe.locate import KeyPath

# Tables that are one statement: they are replaced whole.
_WHOLE = {("data", name) for name in ("train", "preferences", "eval", "test", "split")}


def laid_over(base: Document, over: Document, report: Report) -> Document:
    """Return `base` with `over`'s keys on top; each value keeps the place where it was written.

    A key also takes the place of those that it excludes (`epochs` that of `max_steps`), so that a recipe can choose
    the other way. [policy] may only be narrowed: E0404.
    """
    merged = _Merged(dict(base.places), report)
    data = merged.tables(base.data, over.data, over.places, ())
    return Document(over.source, data, merged.places | dict(over.places))


class _Merged:
    def __init__(self, places: dict[KeyPath, Located], report: Report) -> None:
        self.places = places
        self.report = report

    def tables(self, base: dict[str, Any], over: dict[str, Any], above: Any, path: KeyPath) -> dict[str, Any]:
        data = dict(base)
        for key, value in over.items():
            here = (*path, key)
            for rival in rivals(here, value):
                if rival[:-1] == path and rival[-1] not in over:
                    data.pop(rival[-1], None)
                    self.forget(rival)
            old = data.get(key)
            if isinstance(old, dict) and isinstance(value, dict) and here not in _WHOLE:
                data[key] = self.tables(old, value, above, here)
                continue
            if path == ("policy",) and old is not None and not narrows(old, value):
                self.report.add(_widened(here, self.places[here], above[here]))
            data[key] = value
            self.forget(here)
        return data

    def forget(self, path: KeyPath) -> None:
        """Drop the places of what is replaced."""
        for known in [known for known in self.places if known[: len(path)] == path]:
            del self.places[known]


def narrows(old: Any, new: Any) -> bool:
    """Tell whether limit `new` allows nothing that limit `old` forbids; wrong types are left for validation."""
    if isinstance(old, list) and isinstance(new, list):
        return all(entry in old for entry in new)
    if isinstance(old, int | float) and isinstance(new, int | float):
        return new <= old
    return True


def _widened(path: KeyPath, old: Located, new: Located) -> Diagnostic:
    labels = (Label(new.value, "allows more"), Label(old.value, "the limit"))
    title = f"`{path[-1]}` in [policy] is wider than the policy it extends"
    return Diagnostic("E0404", title, labels, ("a policy that is extended may be narrowed, not widened",))
