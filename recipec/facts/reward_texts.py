"""Reward functions that look for a value of the row anywhere in the text of an answer: "1" is in "10 apples", too.

And those that take an answer for a text, which is a list of messages. A function is read and never run. Followed are
answers, their texts and values of columns, through loops, assignments, methods that leave a text a text, and functions
of the same file. What anything else returns is not known, and nothing is said of it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.data import DataFacts
from recipec.facts.rewards import Reward, Rewards

_SHORT = 4  # characters: more than a number, a letter or a word such as "no" has
_ANSWERS = "completions"
# What is known of answers, of one, of one of its messages, of its text, and of str(answer); no column is called so.
_TALKS, _TALK, _MESSAGE, _TEXT, _SHOWN = "0 talks", "0 talk", "0 message", "0 text", "0 shown"
_ITEM = {_TALKS: _TALK, _TALK: _MESSAGE, _MESSAGE: _TEXT}  # what an index or a key takes out
_LIST = {_TALK: _TALKS, _MESSAGE: _TALK}
_WITHIN = {_TALK: '[-1]["content"]', _MESSAGE: '["content"]'}  # takes out the text
_ASKS_TYPE = {"isinstance", "type", "hasattr"}  # who calls one of them tells lists from texts
_STAYS = {"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "replace", "removeprefix", "removesuffix"}
_PARTS = {"split", "rsplit", "partition", "rpartition", "splitlines"}  # of which one item is a text
_FINDS = {"find", "rfind", "index", "rindex", "count"}
_OF_ANSWERS = {*_ITEM, _TEXT, _SHOWN}
_Known = dict[str, frozenset[str]]  # a name -> the columns that its value comes from, or what of answers it is
_Taken = Callable[[frozenset[str]], frozenset[str]]
_NOTHING: frozenset[str] = frozenset()


def found_within(rewards: Rewards, data: Mapping[str, DataFacts], *, acts: bool) -> Iterator[Diagnostic]:
    """Yield W0556 for each function that looks for the short values of a column within answers.

    And W0558 for each that takes an answer for a text; where the model `acts`, its messages may be counted.
    """
    for reward in rewards.functions:
        reader = _read(reward, rewards.files[reward.module])
        mistaken = () if reader.tells_apart else (one for one in reader.mistaken if not (acts and one.counts))
        for one in sorted(mistaken)[:1]:
            yield _mistaken(reward, one)
        for line, column in sorted(reader.found):
            if (shortest := _shortest(data, column)) is not None:
                yield _warning(reward, line, column, *shortest)
                break


class _Mistake(NamedTuple):
    line: int
    test: str
    text: str  # that is meant
    counts: bool  # messages, which the length of an answer is


def _mistaken(reward: Reward, mistake: _Mistake) -> Diagnostic:
    label = Label(reward.place, f"line {mistake.line} of {reward.file}: `{mistake.test}`")
    help = (f"take out the text: `{mistake.text}`",)
    note = "an answer is a list of messages: by this test all have the same reward, from which nothing is learned"
    return Diagnostic("W0558", f"`{reward.function}` takes an answer for a text", (label,), help, (note,))


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


def _read(reward: Reward, text: str) -> _Reader:
    """What the tests of a function look for; nothing where it cannot be followed."""
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    function = functions[reward.function]
    arguments = function.args
    columns = {*reward.reads.columns, *reward.reads.optional}
    known = {name: frozenset({name}) for name in columns} | {_ANSWERS: frozenset({_TALKS})}
    reader = _Reader(functions, known, arguments.kwarg.arg if arguments.kwarg else "", {})
    try:
        reader.run(function)
    except RecursionError:  # of an expression that nests deep
        return _Reader(functions, known, "", {})
    return reader


def _item(held: frozenset[str]) -> frozenset[str]:
    """What an index, a key or a loop takes out: of answers one of them, of that a message; of a text a text."""
    return frozenset(_ITEM.get(what, what) for what in held)


def _shown(held: frozenset[str]) -> frozenset[str]:
    """What str() makes: of an answer the list as Python prints it."""
    return frozenset(what if what not in _ITEM else _SHOWN for what in held)


class _Reader(ast.NodeVisitor):
    """Goes through a function from top to bottom with what is known of its names."""

    def __init__(
        self, functions: Mapping[str, ast.FunctionDef], known: _Known, kwargs: str, gone_through: dict[object, _Reader]
    ) -> None:
        self.functions, self.known, self.kwargs, self.gone_through = functions, known, kwargs, gone_through
        self.found: set[tuple[int, str]] = set()  # lines, and columns whose values they look for in texts of answers
        self.mistaken: set[_Mistake] = set()
        self.tells_apart = False  # whether it asks of an answer if it is a list
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
        self._bind(node.target, node.iter, _item)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._either(node.body, node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self._either([*node.body, *node.orelse], *(handler.body for handler in node.handlers))
        for statement in node.finalbody:
            self.visit(statement)

    def _either(self, *ways: list[ast.stmt]) -> None:
        """Go through each of the ways, behind which a name may be what any of them made it."""
        before, behind = self.known, []
        for way in ways:
            self.known = {**before}
            for statement in way:
                self.visit(statement)
            behind.append(self.known)
        names = {name for known in behind for name in known}
        self.known = {name: _NOTHING.union(*(known.get(name, _NOTHING) for known in behind)) for name in names}

    def visit_Return(self, node: ast.Return) -> None:
        if node.value:
            self.visit(node.value)
            self.returned |= self.source(node.value)

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> None:
        for loop in node.generators:
            self.visit(loop.iter)
            self._bind(loop.target, loop.iter, _item)
            for condition in loop.ifs:
                self.visit(condition)
        self.visit(node.elt)

    visit_GeneratorExp = visit_SetComp = visit_ListComp

    def visit_Compare(self, node: ast.Compare) -> None:
        self.generic_visit(node)
        for left, test, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            if isinstance(test, ast.In | ast.NotIn):
                self._note(node.lineno, left, right)
                self._mistake(node, right, {_TALK, _MESSAGE})
            elif isinstance(test, ast.Eq | ast.NotEq):
                self._mistake(node, left, {_TALK, _MESSAGE, _SHOWN})
                self._mistake(node, right, {_TALK, _MESSAGE, _SHOWN})

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=text, attr=name), args=[value, *_]) if name in _FINDS:
                self._note(node.lineno, value, text)
                self._mistake(node, text, {_TALK, _MESSAGE})
            case ast.Call(func=ast.Name(id=name), args=[value, *_]) if name in _ASKS_TYPE:
                self.tells_apart |= bool(self.source(value) & {_TALK, _MESSAGE})
            case ast.Call(func=ast.Name(id="len"), args=[value]):
                self._mistake(node, value, {_TALK, _MESSAGE})
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                self._called(node)

    def _note(self, line: int, value: ast.expr, text: ast.expr) -> None:
        if self.source(text) in ({_TEXT}, {_SHOWN}):
            self.found |= {(line, column) for column in self.source(value) - _OF_ANSWERS}

    def _mistake(self, test: ast.expr, value: ast.expr, kinds: set[str]) -> None:
        """Note a test of a value that is a list of messages, or a message, and no text."""
        if len(found := self.source(value)) == 1 and found <= kinds:
            parts = (part for part in ast.walk(value) if isinstance(part, ast.Name | ast.Subscript))
            texts = [ast.unparse(part) + _WITHIN[kind] for part in parts for kind in self.source(part) & _WITHIN.keys()]
            counts = isinstance(test, ast.Call) and isinstance(test.func, ast.Name)
            text = next(iter(texts), f"completion{_WITHIN[_TALK]}")
            self.mistaken.add(_Mistake(test.lineno, ast.unparse(test), text, counts))

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
            self.mistaken |= reader.mistaken
            self.tells_apart |= reader.tells_apart
        return self.gone_through[key].returned

    def _bind(self, target: ast.expr, value: ast.expr, taken: _Taken = frozenset) -> None:
        """Give names what is known of a value, or of what is `taken` out of it, as a loop does."""
        match target, value:
            case ast.Name(id=name), _:
                self.known[name] = taken(self.source(value))
            case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=values) | ast.Tuple(elts=values):
                for each, item in zip(names, values, strict=False):
                    self._bind(each, item, taken)
            case ast.Tuple(elts=[_, each]), ast.Call(func=ast.Name(id="enumerate"), args=[item, *_]):
                self._bind(each, item, taken)

    def source(self, node: ast.expr) -> frozenset[str]:
        """The columns that a value comes from, unchanged but for its letters, or the text of an answer."""
        match node:
            case ast.Name(id=name):
                return self.known.get(name, _NOTHING)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name == self.kwargs:
                return frozenset({key})
            case ast.Subscript(value=ast.Call(func=ast.Attribute(value=text, attr=name))) if name in _PARTS:
                return self.source(text)
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self.source(value)
            case ast.Subscript(value=value, slice=key):
                other = isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value != "content"
                return _NOTHING if other and self.source(value) == {_MESSAGE} else _item(self.source(value))
            case ast.BoolOp(values=values):
                return frozenset[str]().union(*map(self.source, values))
            case ast.IfExp(body=first, orelse=second):
                return self.source(first) | self.source(second)
            case ast.JoinedStr(values=parts):
                ends = (part.value for part in (*parts[:1], *parts[-1:]) if isinstance(part, ast.FormattedValue))
                return _shown(frozenset[str]().union(*map(self.source, ends)))
            case ast.ListComp(elt=each) | ast.GeneratorExp(elt=each):
                return frozenset(_LIST.get(what, what) for what in self.source(each))
            case ast.Call():
                return self._of_call(node)
        return _NOTHING

    def _of_call(self, node: ast.Call) -> frozenset[str]:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=key), *_]):
                return frozenset({str(key)}) if name == self.kwargs else _item(self.known.get(name, _NOTHING))
            case ast.Call(func=ast.Attribute(value=value, attr="get")):
                return _item(self.source(value))
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _STAYS:
                return self.source(value)
            case ast.Call(func=ast.Name(id="str"), args=[value]):
                return _shown(self.source(value))
            case ast.Call(func=ast.Attribute(attr="join"), args=[value]):
                return self.source(value)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                return self._called(node)
        return _NOTHING
