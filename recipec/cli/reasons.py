"""A decision with everything it rests on, as a tree in which each decision stands once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Document = dict[str, Any]


def reason(id: str, decisions: Mapping[str, Document]) -> Document:
    """The decision `id` with its inputs, recursively, under `from`."""
    return _grown(id, decisions, {id})


def reasons(ids: Iterable[str], decisions: Mapping[str, Document]) -> list[Document]:
    """The trees of several decisions; what one has shown, the next ones leave out."""
    known = [id for id in dict.fromkeys(ids) if id in decisions]
    seen = set(known)
    return [_grown(id, decisions, seen) for id in known]


def _grown(id: str, decisions: Mapping[str, Document], seen: set[str]) -> Document:
    """Direct inputs are claimed before theirs, so that each decision stands as near to the top as it can."""
    stage = id.partition(".")[0]
    inputs = (f"{stage}.{name}" for name in decisions[id]["inputs"])
    fresh = [other for other in dict.fromkeys(inputs) if other in decisions and other not in seen]
    seen.update(fresh)
    return decisions[id] | {"id": id, "from": [_grown(other, decisions, seen) for other in fresh]}
