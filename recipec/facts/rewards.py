"""The reward functions that a recipe names: read as text, never run at compile time."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from keyword import iskeyword
from pathlib import PurePosixPath

from msgspec import Struct, field
from msgspec.structs import replace

from recipec.axes.method import GIVEN_TO_REWARDS as GIVEN
from recipec.axes.method import REWARDS
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.data import DataFacts
from recipec.facts.fact import known
from recipec.files import read_regular
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

_MOST_BYTES = 2**20
_TAKEN = {  # names of the bundle's rewards.py, which imports the modules by theirs
    *("json", "math", "signal", "contextmanager", "held", "values", "number", "within", "judged", "check_rewards"),
    *("Callable", "Dataset", "Iterator", "Path", "TrainerState"),
    *("ANSWERS", "CLAMP", "COLUMNS", "REWARDS", "SECONDS", "TRIED", "WEIGHTS", "Reward"),
}
_WAY = 'write FILE:NAME, as in reward = "rewards.py:is_right"'


class Reward(Struct, frozen=True):
    """One function that judges answers."""

    name: str  # by which its rewards are logged; its own among all
    file: str  # as the recipe writes it
    module: str  # the name of the file's copy in the bundle, without its ending
    function: str
    weight: float
    asks: tuple[str, ...]  # parameters that it is given
    place: Place

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of its parameters that are columns of the rows."""
        return tuple(name for name in self.asks if name not in GIVEN)


class Rewards(Struct, frozen=True):
    """All functions of a recipe, and the texts of their files."""

    functions: tuple[Reward, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # module -> text

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows that any function asks for."""
        return tuple(dict.fromkeys(column for reward in self.functions for column in reward.columns))

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What a stage has to know: the functions with their weights, and a digest of their files."""
        listed = [f"{reward.name} x {reward.weight:g}" for reward in self.functions]
        digest = sha256("".join(f"{name}\n{text}\n" for name, text in sorted(self.files.items())).encode()).hexdigest()
        return (
            known("rewards", listed, "the functions that the recipe names", origin="recipe"),
            known("reward_files", digest[:16], "of the files that hold them", "rewards", origin="recipe"),
        )


def look_up_rewards(loaded: LoadedRecipe, report: Report) -> Rewards:
    """The functions that alignment.reward names; one that cannot be used is left out, with E0310."""
    sources = getattr(loaded.recipe.alignment, REWARDS) or []
    texts: dict[str, str] = {}
    found: list[Reward] = []
    for index, source in enumerate(sources):
        place = loaded.place("alignment", REWARDS, index)
        reward = _reward(loaded, source.function, source.weight, place, texts, report)
        if reward and any((one.file, one.function) == (reward.file, reward.function) for one in found):
            report.add(_unusable(f"`{source.function}` judges twice", place, "listed again", "list it once"))
        elif reward:
            found.append(reward)
    modules = _modules([reward.file for reward in found])
    named = _named([replace(reward, module=modules[reward.file]) for reward in found])
    return Rewards(tuple(named), {modules[file]: texts[file] for file in modules})


def _modules(files: Sequence[str]) -> dict[str, str]:
    """File -> a name that Python can import, each once, and none that the bundle's rewards.py has."""
    found: dict[str, str] = {}
    for file in dict.fromkeys(files):
        stem = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in PurePosixPath(file).stem)
        stem = f"_{stem}" if not stem or stem[0].isdigit() else stem
        stem = f"{stem}_rewards" if iskeyword(stem) or stem in _TAKEN else stem
        names = (stem, *(f"{stem}_{number}" for number in range(2, len(files) + 2)))
        found[file] = next(name for name in names if name not in found.values())
    return found


def _named(rewards: Sequence[Reward]) -> Iterator[Reward]:
    """TRL adds up what is logged under one name, so that functions of one name get that of their file, too."""
    several = Counter(reward.function for reward in rewards)
    for reward in rewards:
        name = f"{reward.module}.{reward.function}" if several[reward.function] > 1 else reward.function
        yield replace(reward, name=name)


def _reward(
    loaded: LoadedRecipe, written: str, weight: float | None, place: Place, texts: dict[str, str], report: Report
) -> Reward | None:
    file, colon, function = written.rpartition(":")
    if not colon or not file.endswith(".py") or not function.isidentifier():
        report.add(_unusable(f"`{written}` names no function", place, "no Python file and name", _WAY))
        return None
    tree = _parsed(loaded, file, place, texts, report)
    if tree is None:
        return None
    found = next((node for node in reversed(tree.body) if getattr(node, "name", None) == function), None)
    problem = _problem(found, function, file)
    if problem or not isinstance(found, ast.FunctionDef):
        report.add(_unusable(problem[0], place, *problem[1:]))
        return None
    return Reward(function, file, "", function, 1.0 if weight is None else weight, _asks(found), place)


def _parsed(loaded: LoadedRecipe, file: str, place: Place, texts: dict[str, str], report: Report) -> ast.Module | None:
    """The file as Python, which is not run; None with E0310."""
    try:
        texts[file] = texts.get(file) or read_regular(loaded.folder / file, _MOST_BYTES).decode("utf-8")
        return ast.parse(texts[file], filename=file)
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        report.add(_unusable(f"`{file}` cannot be read", place, reason, "paths start at the recipe's folder"))
    except UnicodeDecodeError:
        report.add(_unusable(f"`{file}` is not UTF-8", place, "named here", "save the file as UTF-8"))
    except SyntaxError as error:
        where = f"line {error.lineno}: {error.msg}"
        report.add(_unusable(f"`{file}` is no Python of this version", place, where, "correct the file"))
    except ValueError as error:
        report.add(_unusable(f"`{file}` is no Python", place, str(error), "correct the file"))
    return None


def _problem(found: ast.stmt | None, function: str, file: str) -> tuple[str, ...]:
    """Why a name of a file is no function that can judge answers, what to show and what helps; empty where it is."""
    if found is None:
        return f"`{file}` has no function `{function}`", "not defined at the top of the file", _WAY
    if isinstance(found, ast.AsyncFunctionDef):
        return f"`{function}` is async", "rewards are awaited nowhere", f"write `def {function}`, without async"
    if not isinstance(found, ast.FunctionDef):
        return f"`{function}` of `{file}` is no function", "a class", _WAY
    arguments = found.args
    if arguments.posonlyargs or arguments.vararg:
        return f"`{function}` takes arguments by position", "each is given by its name", "remove `*` and `/`"
    if not any(name in GIVEN for name in _asks(found)):
        given = f"none of its parameters is one of {', '.join(GIVEN)}"
        return f"`{function}` does not look at answers", given, f"write `def {function}(completions, ...)`"
    return ()


def _asks(function: ast.FunctionDef) -> tuple[str, ...]:
    """The parameters that it must be given, and what it takes out of `**kwargs` by name."""
    arguments = function.args
    plain = [argument.arg for argument in arguments.args]
    needed = plain[: len(plain) - len(arguments.defaults)]
    optional = [name for name in plain[len(needed) :] if name in GIVEN]
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    keywords = [argument.arg for argument, default in pairs if default is None or argument.arg in GIVEN]
    rest = _taken_from(function, arguments.kwarg.arg) if arguments.kwarg else []
    return tuple(dict.fromkeys([*needed, *optional, *keywords, *rest]))


def _taken_from(function: ast.FunctionDef, name: str) -> list[str]:
    """The keys of `kwargs["answer"]`, the only way to read a column that no parameter names."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Subscript)]
    keys = [node.slice for node in nodes if isinstance(node.value, ast.Name) and node.value.id == name]
    return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def against_rows(rewards: Rewards, data: Mapping[str, DataFacts]) -> Iterator[Diagnostic]:
    """Yield the columns that functions ask for, and that sampled rows do not have (E0310)."""
    for facts in data.values():
        if not facts.shape.handed or not facts.seen:
            continue
        for reward in rewards.functions:
            lost = [column for column in reward.columns if column not in facts.columns]
            if lost:
                listed = " and ".join(f"`{column}`" for column in lost)
                some = [column for column in lost if column in facts.some_columns]
                label = f"not every row has {listed}" if some else f"no row has {listed}"
                help = "add the column to the rows, or give the parameter a default"
                yield _unusable(f"`{reward.function}` asks for {listed}", reward.place, label, help)


def _unusable(title: str, place: Place, label: str, help: str) -> Diagnostic:
    return Diagnostic("E0310", title, (Label(place, label),), (help,))
