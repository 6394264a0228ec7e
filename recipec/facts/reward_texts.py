"""Reward functions that look for a value of the row anywhere in the text of an answer: "1" is in "10 apples", too.

A function is read and never run. Followed are texts of answers and values of columns, through loops, assignments,
methods that leave a text a text, and functions of the same file. What anything else returns is not known, and nothing
is said of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.data import DataFacts
from recipec.facts.rewards import Reward, Rewards

_SHORT = 4  # characters: more than a number, a letter or a word such as "no" has
_TEXT, _ANSWERS = "", "completions"  # what is known of the text of an answer; no column is called so
_STAYS = {"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "replace", "removeprefix", "removesuffix"}
_PARTS = {"split", "rsplit", "partition", "rpartition", "splitlines"}  # of which one item is a text
_FINDS = {"find", "rfind", "index", "rindex", "count"}
_Known = dict[str, frozenset[str]]  # a name -> the columns that its value comes from, or _TEXT
_NOTHING: frozenset[str] = frozenset()


def found_within(rewards: Rewards, data: Mapping[str, DataFacts]) -> Iterator[Diagnostic]:
    """Yield W0556 for each function that looks for the short values of a column within answers."""
    for reward in rewards.functions:
        for line, column in sorted(_looked_for(reward, rewards.files[reward.module])):
            if (shortest := _shortest(data, column)) is not None:
                yield _warning(reward, line, column, *shortest)
                break


def _shortest(data: Mapping[str, DataFacts], column: str) -> tuple[str, str] | None:
    """The shortest value and its row; None where it is long, and empty texts where no row was looked at."""
    held = [facts.shortest[column] for facts in data.values() if column in facts.shortest]
    if not held and any(facts.sampled for facts in data.values()):
        return None  # no row has it
    value, place = min(held, key=lambda one: len(one[0]), default=("", ""))
    return None if len(value) > _SHORT else (value, place)


def _warning(reward: Reward, line: int, column: str, value: str, place: str) -> Diagnostic:
    label = Label(reward.place, f"line {line} of {reward.file} tests whether the value is in the answer")
    help = (
        "take the final answer out of the text and compare it, for example "
        f'`re.findall(r"-?\\d+", text)[-1:] == [str({column})]` for whole numbers',
        'if the value may stand anywhere in the answer, write `allow = ["W0556"]` under [recipe]',
    )
    said = f'`{column}` is "{value}" in {place}' if place else f"a short `{column}`, such as 1, is part of 10"
    note = f"{said}: a longer number or word that contains it, or a list of guesses, earns the reward as well"
    title = f"`{reward.function}` looks for `{column}` anywhere in an answer"
    return Diagnostic("W0556", title, (label,), help, (note,))


def _looked_for(reward: Reward, text: str) -> set[tuple[int, str]]:
    """The lines of tests, and the columns whose values they look for in the text of an answer."""
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    function = functions[reward.function]
    arguments = function.args
    columns = {*reward.reads.columns, *reward.reads.optional}
    known = {name: frozenset({name}) for name in columns} | {_ANSWERS: frozenset({_TEXT})}
    reader = _Reader(functions, known, arguments.kwarg.arg if arguments.kwarg else "", {})
    try:
        reader.run(function)
    except RecursionError:  # of an expression that nests deep
        return set()
    return reader.found


class _Reader(ast.NodeVisitor):
    """Goes through a function from top to bottom with what is known of its names."""

    def __init__(
        self, functions: Mapping[str, ast.FunctionDef], known: _Known, kwargs: str, gone_through: dict[object, _Reader]
    ) -> None:
        self.functions, self.known, self.kwargs, self.gone_through = functions, known, kwargs, gone_through
        self.found: set[tuple[int, str]] = set()
        self.returned: frozenset[str] = _NOTHING

    def run(self, function: ast.FunctionDef) -> None:
        for statement in function.body:
            self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind(target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target, node.value)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._bind(node.target, node.iter)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value:
            self.visit(node.value)
            self.returned |= self.source(node.value)

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> None:
        for loop in node.generators:
            self.visit(loop.iter)
            self._bind(loop.target, loop.iter)
            for condition in loop.ifs:
                self.visit(condition)
        self.visit(node.elt)

    visit_GeneratorExp = visit_SetComp = visit_ListComp

    def visit_Compare(self, node: ast.Compare) -> None:
        self.generic_visit(node)
        for left, test, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            if isinstance(test, ast.In | ast.NotIn):
                self._note(node.lineno, left, right)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=text, attr=name), args=[value, *_]) if name in _FINDS:
                self._note(node.lineno, value, text)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                self._called(node)

    def _note(self, line: int, value: ast.expr, text: ast.expr) -> None:
        if self.source(text) == {_TEXT}:
            self.found |= {(line, column) for column in self.source(value) - {_TEXT}}

    def _called(self, node: ast.Call) -> frozenset[str]:
        """What a function of the file returns for these arguments; its tests are noted."""
        function = self.functions[node.func.id]  # type: ignore[attr-defined]
        names = [argument.arg for argument in function.args.args]
        given = [*zip(names, node.args, strict=False), *((word.arg or "", word.value) for word in node.keywords)]
        known = {name: self.source(value) for name, value in given}
        key = function.name, frozenset(known.items())
        if key not in self.gone_through:
            self.gone_through[key] = reader = _Reader(self.functions, known, "", self.gone_through)
            reader.run(function)
            self.found |= reader.found
        return self.gone_through[key].returned

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        """Give names what is known of a value, or of the items of one that a loop goes over."""
        match target, value:
            case ast.Name(id=name), _:
                self.known[name] = self.source(value)
            case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=values) | ast.Tuple(elts=values):
                for each, item in zip(names, values, strict=False):
                    self._bind(each, item)
            case ast.Tuple(elts=[_, each]), ast.Call(func=ast.Name(id="enumerate"), args=[item, *_]):
                self._bind(each, item)

    def source(self, node: ast.expr) -> frozenset[str]:
        """The columns that a value comes from, unchanged but for its letters, or the text of an answer."""
        match node:
            case ast.Name(id=name):
                return self.known.get(name, _NOTHING)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name == self.kwargs:
                return frozenset({key})
            case ast.Subscript(value=ast.Call(func=ast.Attribute(value=text, attr=name))) if name in _PARTS:
                return self.source(text)
            case ast.Subscript(value=value):
                return self.source(value)
            case ast.BoolOp(values=values):
                return frozenset[str]().union(*map(self.source, values))
            case ast.IfExp(body=first, orelse=second):
                return self.source(first) | self.source(second)
            case ast.JoinedStr(values=parts):
                ends = (part.value for part in (*parts[:1], *parts[-1:]) if isinstance(part, ast.FormattedValue))
                return frozenset[str]().union(*map(self.source, ends))
            case ast.ListComp(elt=each) | ast.GeneratorExp(elt=each):
                return self.source(each)
            case ast.Call():
                return self._of_call(node)
        return _NOTHING

    def _of_call(self, node: ast.Call) -> frozenset[str]:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=key), *_]):
                return frozenset({str(key)}) if name == self.kwargs else self.known.get(name, _NOTHING)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _STAYS or name == "get":
                return self.source(value)
            case ast.Call(func=ast.Name(id="str") | ast.Attribute(attr="join"), args=[value]):
                return self.source(value)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                return self._called(node)
        return _NOTHING
