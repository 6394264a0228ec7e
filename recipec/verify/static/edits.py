"""Where a file is not as the last build wrote it: its functions and constants, or its lines; comments aside."""

from __future__ import annotations

import ast
from difflib import SequenceMatcher
from pathlib import Path

from recipec.bundle.state import LAST, read_text

_DOCUMENTS = ("README.md", ".gitattributes", ".gitignore", "ruff.toml", "registry/")
_MOST = 8  # places of one file that are named


def edited(root: Path, name: str) -> list[str]:
    """The places of an emitted file that differ; none of a document that nothing runs, or of a file that is gone."""
    if name.startswith(_DOCUMENTS):
        return []
    try:
        now, built = read_text(root / name), read_text(root / LAST / name)
    except OSError:
        return []  # the other checks name it
    if now is None or built is None or now == built:
        return []
    places = _parts_apart(now, built) if name.endswith(".py") else _lines_apart(now, built)
    return places if len(places) <= _MOST else [*places[:_MOST], f"{len(places) - _MOST} more places"]


def _parts_apart(now: str, built: str) -> list[str]:
    try:
        one, other = _parts(now), _parts(built)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _lines_apart(now, built)
    return [name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]


def _parts(text: str) -> dict[str, str]:
    """Name -> code of what stands at the top level, without docstrings."""
    found: dict[str, str] = {}
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    for node in tree.body:
        name = _name(node)
        found[name] = found.get(name, "") + ast.dump(node)
    return found


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef):
        return f"{node.name}()"
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    return "imports" if isinstance(node, ast.Import | ast.ImportFrom) else "statements outside functions"


def _lines_apart(now: str, built: str) -> list[str]:
    """The numbers of the lines that were changed or added, or before which some were removed; no lines of comment."""
    one, other = now.splitlines(), built.splitlines()
    changes = SequenceMatcher(None, other, one, autojunk=False).get_opcodes()
    return [
        f"line {start + 1}"
        for change, first, last, start, end in changes
        if change != "equal" and any(map(_says, (*other[first:last], *one[start:end])))
    ]


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
