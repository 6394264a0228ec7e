"""Two expressions beside each other, as text: where they differ, and what calls are given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OPENED = ast.List | ast.Tuple | ast.Dict | ast.Call  # of which one part may differ
_MOST = 100  # characters of an expression that are shown


def difference(name: str, label: str, now: ast.expr, built: ast.expr) -> Iterator[str]:
    """What is said of the value `label` of the file `name` where it is not as built."""
    if ast.dump(now) == ast.dump(built):
        return
    one, other = _narrowed(now, built)
    what = f"{label} is" if one is now else f"{label} has"
    yield f"{name}:{one.lineno}: {what} {shown(one)}, and was built {'as' if one is now else 'with'} {shown(other)}"


def _narrowed(now: ast.expr, built: ast.expr) -> tuple[ast.expr | ast.keyword, ast.expr | ast.keyword]:
    """The part of two values in which alone they differ: an item, a key, or an argument of a call."""
    if type(now) is not type(built) or not isinstance(now, _OPENED):
        return now, built
    parts, others = [*ast.iter_child_nodes(now)], [*ast.iter_child_nodes(built)]
    apart = [pair for pair in zip(parts, others, strict=False) if ast.dump(pair[0]) != ast.dump(pair[1])]
    if len(parts) != len(others) or len(apart) != 1:
        return now, built
    one, other = apart[0]
    if isinstance(one, ast.keyword) and isinstance(other, ast.keyword):
        return one, other
    return _narrowed(one, other) if isinstance(one, ast.expr) and isinstance(other, ast.expr) else (now, built)


def given(call: ast.Call) -> dict[str, ast.expr]:
    """The keyword arguments of a call by name; a table that is unpacked has its own text for one."""
    return {keyword.arg or f"**{ast.unparse(keyword.value)}": keyword.value for keyword in call.keywords}


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def shown(node: ast.AST) -> str:
    """An expression as text, cut where it is long."""
    text = ast.unparse(node)
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."
