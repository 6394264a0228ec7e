"""What a converter of prepare_data.py reads of a row, told from its text: which columns become which, and labels."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Functions of prepare_data.py that make the dictionary of their argument -> its key.
_MAKES = {"asked_first": "messages"}


def flows(converter: ast.FunctionDef) -> dict[str, list[str]]:
    """The keys of the dictionary that a converter returns, and the columns of its row that go into each.

    Columns stand in the order in which the text reads them; raises ValueError where no dictionary is returned.
    """
    row = converter.args.args[0].arg
    made: dict[str, list[str]] = {}  # name -> the columns that it was made from
    values: dict[str, ast.expr] = {}  # name -> what it was last assigned
    found: dict[str, list[str]] = {}
    for statement in _statements(converter.body):
        for name, value in _assignments(statement):
            before = made.get(name, []) if isinstance(statement, ast.AugAssign) else []
            made[name], values[name] = [*before, *_read(value, row, made)], value
        for key, value in _returned(statement, values, converter.name):
            found.setdefault(key, []).extend(_read(value, row, made))
    return {key: list(dict.fromkeys(columns)) for key, columns in found.items()}


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement of a function in the order of its text."""
    for node in body:
        yield node
        for block in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, block, ()))


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement assigns, each with its value."""
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    paired = isinstance(statement.value, ast.Tuple) and len(statement.value.elts) == len(names)
    values = statement.value.elts if paired else [statement.value] * len(names)
    yield from ((name.id, value) for name, value in zip(names, values, strict=True) if isinstance(name, ast.Name))


def _returned(statement: ast.stmt, values: Mapping[str, ast.expr], converter: str) -> Iterator[tuple[str, ast.expr]]:
    """The keys and values of the dictionary that a statement returns, also by its name."""
    if not isinstance(statement, ast.Return):
        return
    value = values.get(statement.value.id) if isinstance(statement.value, ast.Name) else statement.value
    match value:
        case ast.Dict():
            yield from ((str(constant(key)), part) for key, part in zip(value.keys, value.values, strict=True))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _MAKES:
            yield _MAKES[name], argument
        case _:
            raise ValueError(f"{converter} does not return a dictionary of columns")


def _read(node: ast.expr, row: str, made: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns of `row` in an expression, directly or through names that were made from them."""
    found: list[tuple[int, int, str]] = []
    for part in ast.walk(node):
        key = constant(_row_key(part, row))
        columns = [key] if isinstance(key, str) else made.get(part.id, ()) if isinstance(part, ast.Name) else ()
        found += [(part.lineno, part.col_offset, column) for column in columns]
    return [column for _, _, column in sorted(found, key=lambda place: place[:2])]


def _row_key(node: ast.AST, row: str) -> ast.expr | None:
    """What stands in row[…], row.get(…) or helper(row, …)."""
    if isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[0], ast.Name):
        return node.args[1] if node.args[0].id == row else None
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == row:
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        owner = node.func.value
        return node.args[0] if isinstance(owner, ast.Name) and owner.id == row and node.args else None
    return None


def constant(node: ast.AST | None) -> Any:
    """The value of a constant; None for any other node."""
    return node.value if isinstance(node, ast.Constant) else None


def written_flags(converter: ast.FunctionDef) -> dict[bool, str]:
    """How labels are written, by what the converter takes them for."""
    tables = (node for node in ast.walk(converter) if isinstance(node, ast.Dict))
    for pairs in (list(zip(table.keys, table.values, strict=True)) for table in tables):
        if pairs and all(isinstance(constant(value), bool) for _, value in pairs) and constant(pairs[0][0]) != "true":
            return {constant(value): str(constant(key)) for key, value in reversed(pairs)}
    return {}
