"""The reward functions that a recipe names: read as text, never run at compile time."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.axes.method import GIVEN_TO_REWARDS as GIVEN
from recipec.axes.method import REWARDS
from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts.data import DataFacts
from recipec.facts.fact import known
from recipec.facts.model import look_up
from recipec.facts.own_code import Reads, beside, bound, modules_of, parsed, reads_of, unusable
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

_CODE = "E0310"
_TAKEN = {  # names of the bundle's rewards.py, which imports the modules by theirs
    *("json", "math", "signal", "contextmanager", "held", "number", "within", "judged", "check_rewards"),
    *("Callable", "Dataset", "Iterator", "Path", "TrainerState"),
    *("ANSWERS", "BUNDLE", "CLAMP", "DATA_ROOT", "JUDGE", "REWARDS", "SECONDS", "TRIED", "WEIGHTS", "Reward"),
    *("Judge", "Overdue", "os", "scored"),
    *("check_differs", "right_answers"),
    *("answer", "place", "reward", "row"),  # of its loops
}
JUDGE = "reward_model"  # by which the scores of a model are logged
_WAY = 'write FILE:NAME, as in reward = "rewards.py:is_right"'


class Reward(Struct, frozen=True):
    """One function that judges answers."""

    name: str  # by which its rewards are logged; its own among all
    file: str  # as the recipe writes it
    module: str  # the name of the file's copy in the bundle, without its ending
    function: str
    weight: float
    reads: Reads
    place: Place


class RewardModel(Struct, frozen=True):
    """One model that scores answers."""

    name: str  # by which its rewards are logged; its own among all
    model: Model
    like: str | None  # the model whose shape it has, where the recipe says so
    revision: str | None
    weight: float
    place: Place


class Rewards(Struct, frozen=True):
    """All functions of a recipe, the texts of their files, and the reward models."""

    functions: tuple[Reward, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # module -> text
    models: tuple[RewardModel, ...] = ()
    whole: bool = True  # whether every reward of the recipe is among them

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows without which a function cannot judge."""
        return tuple(dict.fromkeys(column for reward in self.functions for column in reward.reads.columns))

    def handed(self, held: Sequence[str] | None) -> tuple[str, ...]:
        """The columns that any function is handed, where rows hold these; all where a function could not be read."""
        if held is not None and not self.whole:
            return tuple(dict.fromkeys((*self.columns, *held)))
        return tuple(dict.fromkeys(column for reward in self.functions for column in reward.reads.handed(held)))

    def decisions(self, judge: str, environment: str) -> tuple[Decision, ...]:
        """What a stage has to know: what judges with which weights, and a digest of the functions' files.

        `judge` names the stage whose result judges, "" where the recipe names what does; `environment` the class
        whose instances judge answers that act in them, "" where none does.
        """
        if judge:
            because = "the recipe names no reward, so that a reward model is trained first"
            return (known("rewards", [f"{JUDGE} x 1"], because, "stages", origin="planner"),)
        listed = [f"{reward.name} x {reward.weight:g}" for reward in (*self.functions, *self.models)]
        listed += [f"{environment} x 1"] * bool(environment)
        return (*self._of_functions(listed), *self._of_models())

    def _of_models(self) -> tuple[Decision, ...]:
        if not self.models:
            return ()
        named = [judge.model.name for judge in self.models]
        pinned = [judge.revision for judge in self.models]
        return (
            known("reward_models", named, "the models that the recipe names", "rewards", origin="recipe"),
            known(
                "reward_likes",
                [judge.like for judge in self.models],
                "as the recipe says",
                "reward_models",
                origin="recipe",
            ),
            known("reward_revisions", pinned, "as the recipe says", "reward_models", origin="recipe"),
        )

    def _of_functions(self, listed: list[str]) -> tuple[Decision, ...]:
        digest = sha256("".join(f"{name}\n{text}\n" for name, text in sorted(self.files.items())).encode()).hexdigest()
        return (
            known("rewards", listed, "the functions and models that the recipe names", origin="recipe"),
            known("reward_files", digest[:16], "of the files that hold them", "rewards", origin="recipe"),
        )


def look_up_rewards(loaded: LoadedRecipe, report: Report) -> Rewards:
    """The functions that alignment.reward names; one that cannot be used is left out, with E0310."""
    sources = getattr(loaded.recipe.alignment, REWARDS) or []
    texts: dict[str, str] = {}
    found: list[Reward] = []
    judges: list[RewardModel] = []
    for index, source in enumerate(sources):
        place = loaded.place("alignment", REWARDS, index)
        if (source.function is None) == (source.model is None):
            label = "names both" if source.function else "names neither"
            report.add(_unusable("a reward is one function or one model", place, label, "keep one of them"))
            continue
        if source.model is not None:
            judges += _judge(loaded, source, index, place, judges, report)
            continue
        reward = _reward(loaded, source.function, source.weight, place, texts, report)
        if reward and any((one.file, one.function) == (reward.file, reward.function) for one in found):
            report.add(_unusable(f"`{source.function}` judges twice", place, "listed again", "list it once"))
        elif reward and _logs_in_vain(loaded, reward.reads):
            label, help = "its trainer writes no table of answers", "log a number with `log_metric`, or remove it"
            report.add(_unusable(f"`{source.function}` asks for `log_extra`", place, label, help))
        elif reward:
            found.append(reward)
    modules = modules_of([reward.file for reward in found], _TAKEN, "rewards")
    named = _named([replace(reward, module=modules[reward.file]) for reward in found])
    whole = len(found) + len(judges) == len(sources)
    return Rewards(tuple(named), {modules[file]: texts[file] for file in modules}, tuple(judges), whole)


def _logs_in_vain(loaded: LoadedRecipe, reads: Reads) -> bool:
    """Whether a function adds columns to TRL's table of answers, under a trainer that writes none."""
    rows = (row for row in METHODS.values() if row.alignment == loaded.recipe.alignment.method)
    return "log_extra" in reads.given and not reads.all_columns and any(row.module != "trl" for row in rows)


def _judge(
    loaded: LoadedRecipe, source: Any, index: int, place: Place, others: Sequence[RewardModel], report: Report
) -> Iterator[RewardModel]:
    """A reward model; none, with a diagnostic, where it is not known, or is listed again."""
    section = SimpleNamespace(name=source.model, like=source.like, revision=source.revision)
    model = look_up(loaded, section, ("alignment", REWARDS, index), report)
    if model is None:
        return
    if any(other.model.name == model.name for other in others):
        report.add(_unusable(f"`{source.model}` judges twice", place, "listed again", "list it once"))
        return
    name = JUDGE if not others else f"{JUDGE}_{len(others) + 1}"
    yield RewardModel(name, model, source.like, source.revision, 1.0 if source.weight is None else source.weight, place)


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
    tree = parsed(loaded, file, place, texts, _CODE, report)
    if tree is None:
        return None
    found = next((node for node in reversed(tree.body) if function in bound(node)), None)
    problem = _problem(found, function, file) or beside(tree, loaded.folder / file)
    if problem or not isinstance(found, ast.FunctionDef):
        report.add(_unusable(problem[0], place, *problem[1:]))
        return None
    return Reward(function, file, "", function, 1.0 if weight is None else weight, reads_of(found, GIVEN), place)


def _problem(found: ast.stmt | None, function: str, file: str) -> tuple[str, ...]:
    """Why a name of a file is no function that can judge answers, what to show and what helps; empty where it is."""
    if found is None:
        return f"`{file}` has no function `{function}`", "not defined at the top of the file", _WAY
    if isinstance(found, ast.AsyncFunctionDef):
        return f"`{function}` is async", "rewards are awaited nowhere", f"write `def {function}`, without async"
    if not isinstance(found, ast.FunctionDef):
        return f"`{function}` of `{file}` is no function", f"line {found.lineno} makes it something else", _WAY
    arguments = found.args
    if arguments.posonlyargs or arguments.vararg:
        return f"`{function}` takes arguments by position", "each is given by its name", "remove `*` and `/`"
    if not reads_of(found, GIVEN).given:
        given = f"none of its parameters is one of {', '.join(GIVEN)}"
        return f"`{function}` does not look at answers", given, f"write `def {function}(completions, ...)`"
    return ()


def against_rows(rewards: Rewards, data: Mapping[str, DataFacts], *, skips: bool) -> Iterator[Diagnostic]:
    """Yield the columns that functions ask for, and for which sampled rows have no value (E0310).

    With `skips`, rows without one are left out (data.incomplete), and a column that some rows have is enough.
    """
    for facts in data.values():
        if not facts.shape.handed or not facts.seen:
            continue
        for reward in rewards.functions:
            enough = facts.some_columns if skips else facts.columns
            lost = [column for column in reward.reads.columns if column not in enough]
            if lost:
                listed = " and ".join(f"`{column}`" for column in lost)
                some = [column for column in lost if column in facts.some_columns]
                others = [name for name in facts.some_columns if name not in facts.shape.columns.values()]
                gaps = "; ".join(f"no value for `{name}` in {facts.gaps[name]}" for name in some)
                label = gaps if some else f"no row has {listed}"
                label += (
                    f"; the rows have {' and '.join(f'`{name}`' for name in others)}" if others and not some else ""
                )
                title, help = f"`{reward.function}` asks for {listed}", _without_value(lost == some, bool(others))
                yield Diagnostic(_CODE, title, (Label(reward.place, label),), help)


def _without_value(some: bool, others: bool) -> tuple[str, ...]:
    """What to do about rows without a value, of which there are `some`, or about a column that no row has."""
    optional = "a parameter with a default, or `kwargs.get`"
    if not some:
        rename = "name the parameter after a column of the rows, " * others
        return (f"{rename}give every row a value, or do without it: {optional}",)
    return (
        'to leave these rows out, counted: `incomplete = "skip"` under [data]',
        f"to keep them: give every row a value, or do without it ({optional}); return None for such a row, as a number "
        "rewards an answer that nothing was compared with",
    )


def _unusable(title: str, place: Place, label: str, help: str) -> Diagnostic:
    return unusable(_CODE, title, place, label, help)
