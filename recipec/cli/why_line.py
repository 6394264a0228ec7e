"""Why a line of a bundle is as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recipec.bundle.source_map import Origin, ids_at
from recipec.bundle.state import read_text
from recipec.cli.bundles import Bundle, open_bundle
from recipec.cli.decisions import decisions_of
from recipec.cli.output import Failure
from recipec.cli.reasons import reasons
from recipec.units import counted

SCHEMA_VERSION = 1

Document = dict[str, Any]


def explain_line(out: Path, path: str, line: int) -> Document:
    """The JSON model; `kind` is decided, fixed (text of the template) or yours (a line that the user added)."""
    bundle = open_bundle(out)
    origin = ids_at(out, path, line)
    if origin is None:
        raise _no_such_line(bundle, path)
    placed_by = _of_every_line(bundle, path)
    own = [id for id in origin.ids if id not in placed_by]
    decisions = decisions_of(bundle.plan)
    return {
        "schema_version": SCHEMA_VERSION,
        "file": path,
        "line": line,
        "text": origin.text,
        "kind": _kind(origin, own),
        "edited": origin.edited,
        "built": None if origin.line is None else {"line": origin.line, "text": _built_text(bundle, path, origin.line)},
        "decisions": reasons(own or origin.ids, decisions),
        "file_decided_by": _values(placed_by, decisions),
    }


def _kind(origin: Origin, own: list[str]) -> str:
    if origin.line is None:
        return "yours"
    return "decided" if own else "fixed"


def _of_every_line(bundle: Bundle, path: str) -> list[str]:
    """The decisions that put the whole file there: those that every one of its lines names."""
    lines = bundle.lines.get(path, {})
    if not lines or len(lines) < len(bundle.built[path].splitlines()):
        return []
    first, *others = lines.values()
    return [id for id in first if all(id in ids for ids in others)]


def _built_text(bundle: Bundle, path: str, line: int) -> str:
    return bundle.built[path].split("\n")[line - 1]


def _values(ids: list[str], decisions: Mapping[str, Document]) -> list[Document]:
    return [{"id": id, "value": decisions[id]["value"]} for id in ids if id in decisions]


def _no_such_line(bundle: Bundle, path: str) -> Failure:
    text = read_text(bundle.out / path) if path in bundle.built else None
    if text is not None:
        return Failure(f"`{path}` has {counted(len(text.splitlines()), 'line')}")
    gone = "is no longer there" if path in bundle.built else "is not a file that recipec built"
    return Failure(f"`{path}` {gone}", f"the files of this bundle: {', '.join(sorted(bundle.built))}")
