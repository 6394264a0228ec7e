"""The environment and the tools that a recipe names: read as text, never run at compile time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct, field

from recipec.axes.method import ENVIRONMENT, TOOL_FUNCTIONS
from recipec.diagnostics.model import Diagnostic, Place, Report
from recipec.facts.data import DataFacts
from recipec.facts.fact import known
from recipec.facts.own_code import Arguments, Reads, beside, bound, modules_of, parsed, reads_of, unusable
from recipec.facts.rewards import Rewards
from recipec.facts.tool_schemas import schema_tokens, tool_problem
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

_CODE = "E0313"
RESET, GET_REWARD = "reset", "get_reward"  # of an environment: no tools (TRL 1.16 trainer/grpo_trainer.py)
_GIVEN = ("prompt",)  # of a row, beside its columns
# Names of the bundle's tools.py, which imports the modules by theirs.
_TAKEN = {
    *("CHARACTERS", "CLAMP", "CUT", "Callable", "Dataset", "GRPOTrainer", "Iterator", "MADE_UP", "Path"),
    *("SECONDS", "SHOWN", "TOOLS", "TRIED", "bounded", "check_shown", "check_tools", "contextmanager", "cut"),
    *("description", "get_json_schema", "json", "made_up", "math", "number", "of_episode", "play", "signal"),
    *("state", "suppress", "text_of", "tools_of", "tried", "within", "wraps", "Overdue"),
    *("place", "tool"),  # of its loops
}
_WAYS = {
    ENVIRONMENT: f'write FILE:CLASS, as in {ENVIRONMENT} = "shop.py:Shop"',
    TOOL_FUNCTIONS: f'write FILE:NAME, as in {TOOL_FUNCTIONS} = ["tools.py:search"]',
}


class Environment(Struct, frozen=True):
    """The class whose instances answers act in."""

    file: str  # as the recipe writes it
    module: str  # the name of the file's copy in the bundle, without its ending
    name: str
    tools: tuple[str, ...]  # its public methods
    reads: Reads  # of a row, by its reset
    judges: bool  # it has get_reward
    place: Place


class ToolFunction(Struct, frozen=True):
    """One function that the model may call."""

    file: str
    module: str
    name: str
    place: Place


class Acting(Struct, frozen=True):
    """What answers act in while a model learns, and the texts of the files; empty where answers are of one turn."""

    environment: Environment | None = None
    functions: tuple[ToolFunction, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # module -> text
    schema_tokens: int = 0  # that the descriptions of all tools add to every prompt, estimated

    @property
    def acts(self) -> bool:
        """Whether the model has tools."""
        return self.environment is not None or bool(self.functions)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools."""
        return (*(tool.name for tool in self.functions), *(self.environment.tools if self.environment else ()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows without which no episode can begin."""
        return self.environment.reads.columns if self.environment else ()

    @property
    def judges(self) -> str:
        """The class whose instances judge answers; "" where none does."""
        return self.environment.name if self.environment and self.environment.judges else ""

    def handed(self, held: Sequence[str] | None) -> tuple[str, ...]:
        """The columns that an episode begins with, where rows hold these."""
        return self.environment.reads.handed(held) if self.environment else ()

    def decisions(self) -> Iterator[Decision]:
        """What a stage has to know: the tools, a digest of their files, and how long their descriptions are."""
        if not self.acts:
            return
        text = "".join(f"{name}\n{text}\n" for name, text in sorted(self.files.items()))
        because = "the functions that the recipe names, and the public methods of its environment"
        yield known("tools", list(self.names), because, origin="recipe")
        if self.environment:
            acted = f"{self.environment.file}:{self.environment.name}"
            yield known("environment", acted, "the class that the recipe names", origin="recipe")
        digest = sha256(text.encode()).hexdigest()[:16]
        yield known("tool_files", digest, "of the files that hold them", "tools", origin="recipe")
        because = "estimated from the signatures and docstrings of the tools; train.py counts them"
        yield known("schema_tokens", self.schema_tokens, because, "tools", "tool_files")


def look_up_acting(loaded: LoadedRecipe, rewards: Rewards, report: Report) -> Acting:
    """What alignment.environment and alignment.tools name; what cannot be used is left out, with E0313."""
    texts: dict[str, str] = {}
    found = [*_environment(loaded, texts, report), *_functions(loaded, texts, report)]
    held = {reward.file: reward.module for reward in rewards.functions}
    files = [file for file in dict.fromkeys(entry.file for entry, _ in found) if file not in held]
    tools = {node.name for _, nodes in found for node in nodes}
    modules = held | modules_of(files, _TAKEN | tools | {*held.values()}, "tools")
    placed = [_placed(entry, modules[entry.file]) for entry, _ in found]
    acting = Acting(
        next((entry for entry in placed if isinstance(entry, Environment)), None),
        tuple(entry for entry in placed if isinstance(entry, ToolFunction)),
        {modules[entry.file]: texts[entry.file] for entry, _ in found},
        schema_tokens([tool for _, tools in found for tool in tools]),
    )
    for finding in _problems_together(loaded, acting, rewards):
        report.add(finding)
    return acting


def _placed(entry: Environment | ToolFunction, module: str) -> Environment | ToolFunction:
    if isinstance(entry, ToolFunction):
        return ToolFunction(entry.file, module, entry.name, entry.place)
    return Environment(entry.file, module, entry.name, entry.tools, entry.reads, entry.judges, entry.place)


def _problems_together(loaded: LoadedRecipe, acting: Acting, rewards: Rewards) -> Iterator[Diagnostic]:
    """Tools of one name, of which TRL would keep the last, and answers that nothing judges."""
    if not acting.acts:
        return
    place = loaded.place("alignment", ENVIRONMENT if acting.environment else TOOL_FUNCTIONS)
    twice = next((name for name in acting.names if acting.names.count(name) > 1), None)
    if twice:
        help = f"rename one `{twice}`: the model calls tools by their names"
        yield unusable(_CODE, f"two tools are called `{twice}`", place, "named here", help)
    whole = bool(acting.environment) or loaded.recipe.alignment.environment is None
    if whole and not rewards.functions and not rewards.models and not acting.judges:
        label = f"{acting.environment.name} has no `{GET_REWARD}`" if acting.environment else "tools do not judge"
        help = f"define `{GET_REWARD}(self) -> float` in the environment, or set `alignment.reward`"
        yield unusable(_CODE, "nothing judges the answers", place, label, help)
    if acting.judges and any(reward.name == acting.judges for reward in rewards.functions):
        help = "rename one of them: TRL adds up what is logged under one name"
        yield unusable(_CODE, f"`{acting.judges}` is the name of a class and of a reward", place, "named here", help)


def _named(loaded: LoadedRecipe, key: str, written: str, place: Place, report: Report) -> tuple[str, str] | None:
    """The file and the name in it; None with E0313."""
    file, colon, name = written.rpartition(":")
    if colon and file.endswith(".py") and name.isidentifier():
        return file, name
    report.add(unusable(_CODE, f"`{written}` names nothing to call", place, "no Python file and name", _WAYS[key]))
    return None


def _environment(
    loaded: LoadedRecipe, texts: dict[str, str], report: Report
) -> Iterator[tuple[Environment, list[Arguments]]]:
    """The environment and its tools; nothing, with E0313, where it cannot be used."""
    written, place = loaded.recipe.alignment.environment, loaded.place("alignment", ENVIRONMENT)
    if written is None or (named := _named(loaded, ENVIRONMENT, written, place, report)) is None:
        return
    file, name = named
    tree = parsed(loaded, file, place, texts, _CODE, report)
    if tree is None:
        return
    found = next((node for node in reversed(tree.body) if name in bound(node)), None)
    problem = _class_problem(found, name, file) or beside(tree, loaded.folder / file)
    if problem or not isinstance(found, ast.ClassDef):
        report.add(unusable(_CODE, problem[0], place, *problem[1:]))
        return
    methods = {node.name: node for node in found.body if isinstance(node, Arguments)}
    tools = [method for method in methods.values() if _is_tool(method)]
    if not tools:
        help = "write the methods that the model may call; functions that only judge answers are `alignment.reward`"
        report.add(unusable(_CODE, f"`{name}` has no tools", place, f"no public method beside {RESET}", help))
        return
    problem = next(filter(None, (tool_problem(tool, file, of=name) for tool in tools)), ())
    if problem:
        report.add(unusable(_CODE, problem[0], place, *problem[1:]))
        return
    reads, judges = reads_of(_without_self(methods[RESET]), _GIVEN), GET_REWARD in methods
    yield Environment(file, "", name, tuple(tool.name for tool in tools), reads, judges, place), tools


def _is_tool(method: Arguments) -> bool:
    """Whether TRL makes a tool of a method; a property is none."""
    properties = {"property", "cached_property"}
    hidden = any(isinstance(mark, ast.Name) and mark.id in properties for mark in method.decorator_list)
    return not method.name.startswith("_") and method.name not in (RESET, GET_REWARD) and not hidden


def _without_self(method: Arguments) -> Arguments:
    """The method as it is called of an instance."""
    arguments = ast.arguments(
        posonlyargs=[],
        args=method.args.args[1:],
        vararg=None,
        kwonlyargs=method.args.kwonlyargs,
        kw_defaults=method.args.kw_defaults,
        kwarg=method.args.kwarg,
        defaults=method.args.defaults[: len(method.args.args) - 1],
    )
    return ast.FunctionDef(name=method.name, args=arguments, body=method.body, decorator_list=[])


def _class_problem(found: ast.stmt | None, name: str, file: str) -> tuple[str, ...]:
    """Why a name of a file is no class that answers can act in, what to show and what helps; empty where it is."""
    if found is None:
        return f"`{file}` has no class `{name}`", "not defined at the top of the file", _WAYS[ENVIRONMENT]
    if not isinstance(found, ast.ClassDef):
        return f"`{name}` of `{file}` is no class", f"line {found.lineno} makes it something else", _WAYS[ENVIRONMENT]
    if name in _TAKEN:
        return f"`{name}` is a name of the bundle's own", f"line {found.lineno}", "rename the class"
    if bases := [ast.unparse(base) for base in found.bases if ast.unparse(base) != "object"]:
        label = f"it inherits from {' and '.join(bases)}"
        help = f"write `class {name}:` with all its methods: recipec reads the text of this class alone"
        return f"recipec cannot see all tools of `{name}`", label, help
    named = [(name, node) for node in found.body if _may_be_called(node) for name in _bound_in(node)]
    if other := next(((name, node) for name, node in named if name[0] != "_"), None):
        label = f"line {other[1].lineno} makes `{other[0]}` a name for what recipec cannot see"
        help = f"write `def {other[0]}(self, ...)`, or begin the name with `_`: TRL offers every function of a class"
        return f"recipec cannot see all tools of `{name}`", label, help
    methods = {node.name: node for node in found.body if isinstance(node, Arguments)}
    if RESET not in methods:
        help = f"define `def {RESET}(self, ...)`: it clears the state and may return what the model is told first"
        return f"`{name}` has no method `{RESET}`", "an episode has no beginning", help
    return next(filter(None, (_method_problem(methods.get(part), name) for part in _CALLED)), ())


_CALLED = ("__init__", RESET, GET_REWARD)
_DATA = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp)


def _may_be_called(node: ast.stmt) -> bool:
    """Whether what a class binds otherwise than with `def` may be a function: what is written as data is none."""
    value = getattr(node, "value", None)
    without = isinstance(node, ast.ClassDef | ast.AnnAssign) and value is None
    return not without and not isinstance(node, Arguments) and not isinstance(value, _DATA)


def _bound_in(node: ast.stmt) -> set[str]:
    """The names that a statement of a class binds, also with a `def` inside it."""
    return bound(node) | {part.name for part in ast.walk(node) if isinstance(part, Arguments)}


def _method_problem(method: Arguments | None, name: str) -> tuple[str, ...]:
    """Why a method that the trainer calls itself cannot be called."""
    if method is None:
        return ()
    called = f"{name}.{method.name}"
    if isinstance(method, ast.AsyncFunctionDef):
        return f"`{called}` is async", "nothing awaits it", f"write `def {method.name}`, without async"
    if method.decorator_list:
        return f"`{called}` is decorated", f"line {method.lineno}", "remove the decorator"
    arguments = method.args
    if arguments.posonlyargs or arguments.vararg:
        return f"`{called}` takes arguments by position", "each is given by its name", "remove `*` and `/`"
    needed = len(arguments.args) - len(arguments.defaults) > 1 or None in arguments.kw_defaults
    if method.name != RESET and needed:
        help = "give every parameter behind `self` a default"
        return f"`{called}` needs arguments", f"it is called as `{called}()`", help
    return ()


def _functions(
    loaded: LoadedRecipe, texts: dict[str, str], report: Report
) -> Iterator[tuple[ToolFunction, list[Arguments]]]:
    """The functions that the recipe lists; one that cannot be used is left out, with E0313."""
    for index, written in enumerate(loaded.recipe.alignment.tools or []):
        place = loaded.place("alignment", TOOL_FUNCTIONS, index)
        named = _named(loaded, TOOL_FUNCTIONS, written, place, report)
        tree = parsed(loaded, named[0], place, texts, _CODE, report) if named else None
        if named is None or tree is None:
            continue
        file, name = named
        found = next((node for node in reversed(tree.body) if name in bound(node)), None)
        problem = _function_problem(found, name, file) or beside(tree, loaded.folder / file)
        if problem or not isinstance(found, Arguments):
            report.add(unusable(_CODE, problem[0], place, *problem[1:]))
        else:
            yield ToolFunction(file, "", name, place), [found]


def _function_problem(found: ast.stmt | None, name: str, file: str) -> tuple[str, ...]:
    if found is None:
        return f"`{file}` has no function `{name}`", "not defined at the top of the file", _WAYS[TOOL_FUNCTIONS]
    if not isinstance(found, Arguments):
        label = f"line {found.lineno} makes it something else"
        return f"`{name}` of `{file}` is no function", label, _WAYS[TOOL_FUNCTIONS]
    return tool_problem(found, file, of="")


def against_episodes(acting: Acting, data: Mapping[str, DataFacts], *, skips: bool) -> Iterator[Diagnostic]:
    """Yield the columns that `reset` asks for, and for which sampled rows have no value (E0313).

    With `skips`, rows without one are left out (data.incomplete), and a column that some rows have is enough.
    """
    for facts in data.values():
        enough = facts.some_columns if skips else facts.columns
        lost = [column for column in acting.columns if column not in enough]
        if not facts.shape.handed or not facts.seen or not lost or not acting.environment:
            continue
        listed = " and ".join(f"`{column}`" for column in lost)
        title = f"`{acting.environment.name}.{RESET}` asks for {listed}"
        help = "give every row a value, name a column that the rows have, or give the parameter a default"
        yield unusable(_CODE, title, acting.environment.place, f"not every row has {listed}", help)
