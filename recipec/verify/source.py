"""Reading emitted Python without running it: literal arguments, functions, the columns that a function reads."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any


def function(path: Path, name: str) -> ast.FunctionDef | None:
    """The top-level function `name` of a Python file; None when it is not there."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def assigned(path: Path, name: str) -> ast.expr | None:
    """The value of the top-level assignment to `name`; None when there is none."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.value
    return None


def call_arguments(node: ast.AST | None) -> dict[str, Any]:
    """The keyword arguments of the outermost call in `node` that are literals."""
    call = next((part for part in ast.walk(node) if isinstance(part, ast.Call)), None) if node else None
    return literal_keywords(call) if call else {}


def literal_keywords(call: ast.Call) -> dict[str, Any]:
    """The keyword arguments of one call that are literals; of a choice by the run's length, the planned one."""
    found = {}
    for keyword in call.keywords:
        planned = keyword.value.body if isinstance(keyword.value, ast.IfExp) else keyword.value
        try:
            found[keyword.arg or "**"] = ast.literal_eval(planned)
        except ValueError:
            continue  # an expression such as args.max_steps: only the run knows it
    return found


def every_keyword(node: ast.AST | None) -> dict[str, Any]:
    """The keyword arguments of all calls in `node` that are literals."""
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call)) if node else ()
    return {name: value for call in calls for name, value in literal_keywords(call).items()}


def columns_read(node: ast.AST | None) -> list[str]:
    """The columns that a function reads as row["NAME"] or row.get("NAME"), in the order of its text."""
    found: list[tuple[int, int, str]] = []
    for part in ast.walk(node) if node else ():
        key = _row_key(part)
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.append((key.lineno, key.col_offset, key.value))
    return list(dict.fromkeys(name for _, _, name in sorted(found)))


def _row_key(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "row":
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        owner = node.func.value
        return node.args[0] if isinstance(owner, ast.Name) and owner.id == "row" and node.args else None
    return None
