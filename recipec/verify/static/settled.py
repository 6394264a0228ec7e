"""What a script of a bundle has settled: its constants, what its calls are given, and the calls that it must make."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

_OPEN_CONSTANTS = frozenset(  # how much is shown, how much memory is taken, when a script warns, what it predicts
    (
        *("ANSWERS_AT_ONCE", "AT_ONCE", "BATCH_GIB", "BLANK", "CARD", "COLUMNS", "CONVERTERS", "CUT", "DISK_GIB"),
        *("ENDING_SECONDS", "FEATURES", "FIELDS", "FIRST_ROWS", "IGNORED", "LEAST_LEFT", "LEFT_OUT", "LOG", "MARKS"),
        *("MAX_DROPPED", "MERGE_MAY_COST", "MOST_APART", "NEW_TOKENS", "NOTHING", "PAPER", "POOL"),
        *("PREDICTED_PEAK_GIB", "PROBE", "QUICK_ROWS", "READERS", "ROWS_OFF", "SAMPLES", "SECONDS", "STEP_SECONDS"),
        *("TOKENS_AT_ONCE", "TRIED", "UNSEEN", "VALUES"),
    )
)
_OPEN_KEYWORDS = frozenset(  # texts for people, and lists to which a bundle's owner may add
    ("allow_abbrev", "callbacks", "description", "encoding", "end", "ensure_ascii", "flush", "help", "indent", "sep")
)
_TELLS = ("print", "check_", "add_argument", "lock_folder", "mkdir", "wait_for_everyone", "end")  # or checks
_OPENED = ast.List | ast.Tuple | ast.Dict | ast.Call


def settled_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    """What is not as built in the script `name`."""
    yield from _constant_problems(name, now, built)
    if name.endswith(("train.py", "evaluate.py", "quantize.py")):
        yield from _call_problems(name, now, built)
    yield from _effect_problems(name, now, built)


def _constant_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    found = _constants(now)
    for constant, value in _constants(built).items():
        if constant in _OPEN_CONSTANTS:
            continue
        if constant not in found:
            yield f"{name}: {constant} is not set, and was built as {_shown(value)}"
        else:
            yield from _difference(name, constant, found[constant], value)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The last value of each name that the script sets at its top level."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    return found


def _call_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    """Keyword arguments with another value, of calls that are still made; of main() also those without a name."""
    found = _calls(now)
    for key, call in _calls(built).items():
        function, callee = key[:2]
        if (other := found.get(key)) is None or callee == "print":
            continue
        given = _given(other)
        for argument, before in _given(call).items():
            if argument in _OPEN_KEYWORDS:
                continue
            if (value := given.get(argument)) is None:
                wanted = f"{argument} of {callee}()"
                yield f"{name}:{other.lineno}: {wanted} is not set, and was built as {_shown(before)}"
            else:
                yield from _difference(name, f"{argument} of {callee}()", value, before)
        yield from _position_problems(name, callee, other, call) if function == "main" else ()
        yield from _added_problems(name, callee, other, call) if function.endswith("_config") else ()


def _calls(tree: ast.Module) -> dict[tuple[str, ...], ast.Call]:
    """The calls of every function by its name, theirs, their first literal and their order."""
    found: dict[tuple[str, ...], ast.Call] = {}
    times = Counter[tuple[str, ...]]()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name == "training_config":
            continue  # its arguments are held to the plan beside this
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            first = ast.unparse(call.args[0]) if call.args and isinstance(call.args[0], ast.Constant) else ""
            key = (function.name, ast.unparse(call.func), first)
            times[key] += 1
            found[(*key, str(times[key]))] = call
    return found


def _given(call: ast.Call) -> dict[str, ast.expr]:
    """Its keyword arguments by name; each table that is unpacked has its own text for one."""
    return {keyword.arg or f"**{ast.unparse(keyword.value)}": keyword.value for keyword in call.keywords}


def _position_problems(name: str, callee: str, now: ast.Call, built: ast.Call) -> Iterator[str]:
    if callee.startswith(_TELLS):
        return
    if len(now.args) != len(built.args):
        yield f"{name}:{now.lineno}: {callee}() is given {len(now.args)} values, and was built with {len(built.args)}"
        return
    for value, before in zip(now.args, built.args, strict=True):
        yield from _difference(name, f"an argument of {callee}()", value, before)


def _added_problems(name: str, callee: str, now: ast.Call, built: ast.Call) -> Iterator[str]:
    """What a configuration is given beside what was built."""
    before = _given(built)
    for argument, value in _given(now).items():
        if argument not in before:
            yield f"{name}:{value.lineno}: {argument} of {callee}() is {_shown(value)}, and was built without it"


def _effect_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    """What main() did only for its effect, and no part of the script does any more."""
    calls = {_callee(node) for node in ast.walk(now) if isinstance(node, ast.Call)}
    places = {ast.unparse(node) for node in ast.walk(now) if isinstance(node, ast.Attribute)}
    main = next((node for node in built.body if isinstance(node, ast.FunctionDef) and node.name == "main"), None)
    for node in ast.walk(main) if main else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            callee = _callee(node.value)
            if callee not in calls and not callee.startswith(_TELLS):
                yield f"{name}: it never calls {callee}(), and was built with {_shown(node.value)}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            if (place := ast.unparse(node.targets[0])) not in places:
                yield f"{name}: it never sets {place}, and was built with {_shown(node)}"


def _callee(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _difference(name: str, label: str, now: ast.expr, built: ast.expr) -> Iterator[str]:
    if ast.dump(now) != ast.dump(built):
        one, other = _narrowed(now, built)
        within = f"in {label}, " if one is not now else f"{label} is "
        joint = " stands where " if one is not now else ", and was built as "
        end = " was built" if one is not now else ""
        yield f"{name}:{one.lineno}: {within}{_shown(one)}{joint}{_shown(other)}{end}"


def _narrowed(now: ast.AST, built: ast.AST) -> tuple[ast.AST, ast.AST]:
    """The part of two values in which alone they differ: an item, a key, or an argument of a call."""
    if type(now) is type(built) and isinstance(now, _OPENED):
        pairs = [*zip(ast.iter_child_nodes(now), ast.iter_child_nodes(built), strict=False)]
        apart = [(one, other) for one, other in pairs if ast.dump(one) != ast.dump(other)]
        if len(pairs) == len([*ast.iter_child_nodes(built)]) == len([*ast.iter_child_nodes(now)]) and len(apart) == 1:
            return _narrowed(*apart[0])
    return now, built


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 100 else f"{text[:97]}..."
