"""The small mistakes: every change of one place in a file that a test should notice."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

# Arguments that hold sentences for people, not behavior.
TEXTS = frozenset(
    (
        *("because", "source", "watch", "title", "description", "page", "means", "summary", "learns", "full_name"),
        *("pros", "cons", "result", "recognized", "label", "note", "help", "not_on_cpu"),
        *("packs_because", "groups_because", "adaptations_because", "preferred_because"),
    )
)
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
CALLS = {"max": "min", "min": "max", "any": "all", "all": "any", "sorted": "list", "ceil": "floor", "floor": "ceil"}
_NAME = re.compile(r"[a-z][\w./-]*")  # a string that is a name of something, not a text


class Mutant(Struct, frozen=True):
    """One change of one place."""

    path: str  # of the file, from the root of the repository
    scope: str  # the function that it is in; "" for a module or a class
    statement: int  # the line of the function's statement that it is in, 0 in a module: how `reach` knows it
    line: int
    span: tuple[int, int]  # bytes of the file that are replaced
    before: str
    after: str
    id: str = ""  # the same as long as its function does not change

    def applied(self, text: bytes) -> bytes:
        """The file with the change."""
        return text[: self.span[0]] + self.after.encode() + text[self.span[1] :]


def mutants(root: Path, path: str) -> list[Mutant]:
    """Every mutant of a file that still compiles."""
    text = (root / path).read_bytes()
    found = _Finder(path, text).found
    good = [mutant for mutant in found if _compiles(mutant.applied(text))]
    return list(_named(good, text))


def _compiles(text: bytes) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _named(found: list[Mutant], text: bytes) -> Iterator[Mutant]:
    """With ids: the file, the function, the line's own text and the change; equal ones are numbered."""
    lines, seen = text.decode().splitlines(), {}
    for mutant in found:
        key = f"{mutant.path}:{mutant.scope}:{lines[mutant.line - 1].strip()}:{mutant.before}:{mutant.after}"
        seen[key] = seen.get(key, 0) + 1
        id = hashlib.sha256(f"{key}:{seen[key]}".encode()).hexdigest()[:12]
        yield Mutant(**{name: getattr(mutant, name) for name in Mutant.__slots__} | {"id": id})


class _Finder(ast.NodeVisitor):
    """Walks a module and notes its mutants; leaves out annotations, decorators, docstrings and texts."""

    def __init__(self, path: str, text: bytes) -> None:
        self.path, self.text, self.found = path, text, list[Mutant]()
        self.scopes: list[ast.FunctionDef] = []
        self.statement = 0
        lines = text.split(b"\n")
        self.offsets = [0]
        for line in lines:
            self.offsets.append(self.offsets[-1] + len(line) + 1)
        self.visit(ast.parse(text))

    # --- noting

    def note(self, node: ast.AST, after: ast.AST | str) -> None:
        start = self.offsets[node.lineno - 1] + node.col_offset
        end = self.offsets[node.end_lineno - 1] + node.end_col_offset
        if isinstance(after, ast.expr):
            after = f"({ast.unparse(after)})"
        before = " ".join(self.text[start:end].decode().split())
        name = ".".join(scope.name for scope in self.scopes)
        statement = self.statement if self.scopes else 0
        self.found.append(Mutant(self.path, name, statement, node.lineno, (start, end), before, str(after)))

    def visit(self, node: ast.AST) -> None:
        outer = self.statement
        if isinstance(node, ast.stmt):
            self.statement = node.lineno
        super().visit(node)
        self.statement = outer

    # --- what is left out

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *(value for value in node.args.kw_defaults if value)]:
            self.visit(default)
        self.scopes.append(node)
        for statement in node.body[ast.get_docstring(node) is not None :]:
            self.visit(statement)
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body[ast.get_docstring(node) is not None :]:
            self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        for statement in node.body[ast.get_docstring(node) is not None :]:
            if not _names(statement, "__all__"):
                self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts for people."""

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.note(node, "pass")

    # --- statements

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not _is(node.value, None):
            self.note(node, "return None")
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.note(node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.note(node, "pass")
        self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.note(node, "pass")

    visit_Break = visit_Continue

    def visit_If(self, node: ast.If) -> None:
        self.condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.note(test, ast.Constant(True))
        self.generic_visit(node)

    def condition(self, test: ast.expr) -> None:
        for value in (True, False):
            self.note(test, ast.Constant(value))

    # --- expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                operators = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                self.note(node, ast.Compare(node.left, operators, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.note(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        for place in range(len(node.values)):
            rest = node.values[:place] + node.values[place + 1 :]
            self.note(node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.note(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not (_text(node.left) or _text(node.right)):
            other = ARITHMETIC.get(type(node.op))
            if other is not None:
                self.note(node, ast.BinOp(node.left, other(), node.right))
            elif isinstance(node.op, ast.BitOr):
                self.note(node, node.left)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.note(node, ast.Constant(not value))
        elif isinstance(value, int | float):
            for other in dict.fromkeys((value + 1, value * 2, -value)):
                if other != value:
                    self.note(node, ast.Constant(other))
        elif isinstance(value, str) and _NAME.fullmatch(value):
            self.note(node, ast.Constant(f"{value}x"))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in CALLS:
            self.note(node, ast.Call(ast.Name(CALLS[name]), node.args, [] if name == "sorted" else node.keywords))
        pair = node.args[:2]
        if len(pair) == 2 and not any(isinstance(part, ast.Starred) for part in pair) and not all(map(_text, pair)):
            self.note(node, ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords))
        if name == "replace" and len(node.keywords) > 1:
            for place in range(len(node.keywords)):
                rest = node.keywords[:place] + node.keywords[place + 1 :]
                self.note(node, ast.Call(node.func, node.args, rest))
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in TEXTS:
            self.visit(node.value)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
            for left_out in (node.elts[:-1], node.elts[1:]):
                self.note(node, type(node)(left_out, ast.Load()))
        self.generic_visit(node)

    visit_List = visit_Tuple

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not isinstance(node.slice, ast.Tuple):  # tuple[str, ...] is a type
            self.visit(node.slice)

    def visit_Set(self, node: ast.Set) -> None:
        if len(node.elts) > 1:
            self.note(node, ast.Set(node.elts[:-1]))
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        if len(node.keys) > 1:
            self.note(node, ast.Dict(node.keys[:-1], node.values[:-1]))
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and key.value in TEXTS):
                self.visit(value)


def _is(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _names(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )
