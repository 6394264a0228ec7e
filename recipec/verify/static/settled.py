"""What a script of a bundle has settled: its constants, what its calls are given, and the calls that it must make."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from recipec.verify.static.expressions import called, difference, given, shown

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
_SHOWS = ("print", "generate")  # samples for people
_CALLING = ("train.py", "evaluate.py", "quantize.py")
_STARTS = "__name__ == '__main__'"
_Calls = Mapping[tuple[str, str, str], list[ast.Call]]


def settled_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    """What is not as built in the script `name`."""
    yield from _constant_problems(name, now, built)
    yield from _call_problems(name, _calls(now), _calls(built))
    yield from _effect_problems(name, now, built)
    if name.endswith("train.py"):
        yield from _assignment_problems(name, now, built)


def _constant_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    found = _constants(now)
    for constant, value in _constants(built).items():
        if constant in _OPEN_CONSTANTS:
            continue
        if constant not in found:
            yield f"{name}: {constant} is not set, and was built as {shown(value)}"
        else:
            yield from difference(name, constant, found[constant], value)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The last value of each name that the script sets at its top level."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    return found


def _call_problems(name: str, now: _Calls, built: _Calls) -> Iterator[str]:
    """Arguments with another value, of calls that are still made: of all in these scripts, elsewhere of what loads."""
    for (function, callee, option), calls in built.items():
        loads = callee.endswith("from_pretrained")
        if callee.endswith(_SHOWS) or not (loads or name.endswith(_CALLING)):
            continue
        found = now.get((function, callee, option), [])
        if option and not found:
            yield f"{name}: it has no option {option}, and was built with it"
        in_order = (loads or function == "main") and not callee.rpartition(".")[2].startswith(_TELLS)
        for call in calls if found else ():
            every = ([*_argument_problems(name, other, call, function, in_order)] for other in found)
            yield from min(every, key=len)  # of the call that is nearest: others may have been added


def _calls(tree: ast.Module) -> _Calls:
    """The calls of every function by its name, theirs, and the option of the command line that they add."""
    found: dict[tuple[str, str, str], list[ast.Call]] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name == "training_config":
            continue  # its arguments are held to the plan beside this
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            option = ast.unparse(call.args[0]) if called(call) == "add_argument" and call.args else ""
            found.setdefault((function.name, ast.unparse(call.func), option), []).append(call)
    return found


def _argument_problems(name: str, now: ast.Call, built: ast.Call, function: str, in_order: bool) -> Iterator[str]:
    yield from _keyword_problems(name, now, built, closed=function.endswith("_config"))
    if in_order:
        yield from _position_problems(name, now, built)


def _keyword_problems(name: str, now: ast.Call, built: ast.Call, *, closed: bool) -> Iterator[str]:
    """Those with another value or none; of a configuration that is `closed`, also those that were added."""
    found, before, callee = given(now), given(built), ast.unparse(built.func)
    for argument in dict.fromkeys((*before, *found)):
        if argument in _OPEN_KEYWORDS or (argument not in before and not closed):
            continue
        label = f"{argument} of {callee}()"
        if argument not in found:
            yield f"{name}:{now.lineno}: {label} is not set, and was built as {shown(before[argument])}"
        elif argument not in before:
            value = found[argument]
            yield f"{name}:{value.lineno}: {label} is {shown(value)}, and was built without it"
        else:
            yield from difference(name, label, found[argument], before[argument])


def _position_problems(name: str, now: ast.Call, built: ast.Call) -> Iterator[str]:
    callee = ast.unparse(built.func)
    if len(now.args) != len(built.args):
        yield f"{name}:{now.lineno}: {callee}() is given {len(now.args)} values, and was built with {len(built.args)}"
        return
    for value, before in zip(now.args, built.args, strict=True):
        yield from difference(name, f"an argument of {callee}()", value, before)


def _effect_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    """What main() called only for its effect, and no part of the script calls any more; a main() that nothing calls."""
    calls = {ast.unparse(node.func) for node in ast.walk(now) if isinstance(node, ast.Call)}
    for node in ast.walk(_main(built)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            callee = ast.unparse(node.value.func)
            if callee not in calls and not called(node.value).startswith(_TELLS):
                yield f"{name}: it never calls {callee}(), and was built with {shown(node.value)}"
    if _starts(built) and not _starts(now):
        yield f"{name}: it does not call main() if {_STARTS}, and so does nothing"


def _starts(tree: ast.Module) -> bool:
    """Whether main() is called where the script is started."""
    started = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == _STARTS]
    return any(isinstance(node, ast.Call) and called(node) == "main" for part in started for node in ast.walk(part))


def _assignment_problems(name: str, now: ast.Module, built: ast.Module) -> Iterator[str]:
    """What main() sets of other objects, and what it makes of constants that are held."""
    found = _assigned(_main(now))
    for target, value in _assigned(_main(built)).items():
        if target not in found and "." in target:
            yield f"{name}: it never sets {target}, and was built as {shown(value)}"
        elif target in found and not isinstance(value, ast.Call) and ("." in target or _of_constants(value)):
            yield from difference(name, target, found[target], value)


def _assigned(function: ast.AST) -> dict[str, ast.expr]:
    """The first value of each target."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            found.setdefault(ast.unparse(node.targets[0]), node.value)
    return found


def _of_constants(value: ast.expr) -> bool:
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return any(name.isupper() for name in names - _OPEN_CONSTANTS)


def _main(tree: ast.Module) -> ast.AST:
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    return next(functions, ast.Module([], []))
