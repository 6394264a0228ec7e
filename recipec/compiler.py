"""The compiler: the list of passes, nothing else. Read this first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from os.path import relpath
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from recipec.agreement import contradictions, without_code
from recipec.backends import Job, Start, Task, lower, missing, start_of
from recipec.bundle.lock import LockInputs
from recipec.catalog.stack import stack
from recipec.diagnostics.allow import silence
from recipec.diagnostics.model import Diagnostic, Report
from recipec.facts import Facts, gather, look_up_names
from recipec.facts.rewritten import with_new_files
from recipec.planner import Context, Plan, Selection, contexts, forget, other_plans, plan_recipe
from recipec.planner.advice.adapters import check_adapters, side_by_side
from recipec.planner.advice.arguments import check_arguments
from recipec.planner.advice.limits import (
    check_buildable,
    check_judges,
    check_limits,
    check_stages,
    check_templates,
    check_terms,
)
from recipec.planner.advice.prepared_ahead import with_rows_ahead
from recipec.planner.advice.shadowed import shadowed
from recipec.planner.advice.warnings import warn
from recipec.planner.advice.written_answers import check_answers
from recipec.planner.document import plan_digest, plan_json
from recipec.recipe import LoadedRecipe
from recipec.recipe.adapters import as_written
from recipec.recipe.extends import shipped_recipes_folder
from recipec.recipe.load import Draft, read_recipe
from recipec.render.artifact import Rendered
from recipec.render.environment import render
from recipec.selection import choose_model


class Compilation(Struct, frozen=True):
    """Everything that compiling a recipe finds out; commands are thin readers of it."""

    diagnostics: Sequence[Diagnostic]
    recipe: LoadedRecipe | None = None
    facts: Facts | None = None
    plan: Plan | None = None
    files: Sequence[Rendered] = ()
    lock: LockInputs | None = None
    start: Start | None = None
    whole: bool = True  # every check ran: an error of an earlier pass keeps later ones from running

    @property
    def plan_json(self) -> bytes:
        assert self.plan is not None
        return plan_json(self.plan)

    @property
    def source_map(self) -> Mapping[str, Mapping[int, tuple[str, ...]]]:
        """Path -> line -> ids of the decisions behind it."""
        return {file.path: file.lines for file in self.files}


def compile_recipe(
    path: Path, *, only_plan: bool = False, only_check: bool = False, out: Path | None = None
) -> Compilation:
    """Compile the recipe at `path`; reads it and the files it names, writes and prints nothing.

    `only_plan`: without files, and without the checks that are theirs alone. `only_check`: with all checks, but with
    neither files nor what the plan would advise. `out`: the folder that the bundle is for. Its README.md says how to
    get from there to the recipe's folder.
    """
    forget()
    report = Report()
    check_rows(report)
    read = None if report.has_errors else read_recipe(path, report)
    if isinstance(read, Draft):
        look_up_names(read, report)
    loaded = read if isinstance(read, LoadedRecipe) else None
    tasks = _tasks(loaded, report, advised=not only_check) if loaded else {}
    plan = _joined(tasks)
    sound = plan is not None and not report.has_errors  # else the plan is that of a recipe without what is refused
    facts = next((task.facts for task in tasks.values()), None)
    for task in tasks.values():
        _check_given(task, report)
    if plan and facts and loaded:
        plan = with_rows_ahead(plan, loaded)
        check_limits(loaded, facts.model.licence, plan, report, other_plans(loaded, facts, plan))
        check_adapters(loaded, plan, report)
        for finding in shadowed(loaded, plan):
            report.add(finding)
    for name, task in tasks.items() if plan else ():
        _add_of_task(_plan_checked(task, sound), name, loaded, report)
    if plan and loaded and not only_plan:
        check_buildable(loaded, plan, report)
    allowed = loaded.allowed() if loaded else {}
    found = with_new_files(loaded, report.diagnostics) if loaded else report.diagnostics
    diagnostics = silence(found, allowed, complete=sound)
    if report.has_errors or plan is None or loaded is None or facts is None:
        return Compilation(diagnostics, loaded, facts, whole=plan is not None)
    if only_plan or only_check:
        return Compilation(diagnostics, loaded, facts, plan)
    job = replace(_job(loaded, facts, plan, tasks), out=out)
    files = [render(artifact) for artifact in lower(job)]
    return Compilation(diagnostics, loaded, facts, plan, files, _lock(loaded), start_of(job))


class _Planned(Struct, frozen=True):
    """A recipe, or one of its tasks, as far as it came."""

    loaded: LoadedRecipe
    facts: Facts | None
    plan: Plan | None = None
    selection: Selection | None = None


def _tasks(loaded: LoadedRecipe, report: Report, advised: bool) -> dict[str, _Planned]:
    """Every task as far as it comes: one without a name, or those of [[adapters]]; the first fetches the model."""
    first = next(iter(loaded.tasks))
    own = {name: Report() for name in loaded.tasks}
    given = {name: _given(task, own[name], name != first) for name, task in loaded.tasks.items()}
    found = {name: _planned(task, _stages_beside(name, given), own[name], advised) for name, task in given.items()}
    for name in found:
        _add_of_task(own[name], name, loaded, report)
    return found


def _stages_beside(name: str, given: Mapping[str, _Planned]) -> list[Context]:
    """The stages of the other tasks: what is changed for one of them is changed for all."""
    others = [task for other, task in given.items() if other != name]
    return [context for task in others if task.facts for context in contexts(task.loaded, task.facts)]


def _add_of_task(own: Report, name: str, loaded: LoadedRecipe | None, report: Report) -> None:
    """Add what is found about a task, in the words of the table that states it."""
    for finding in own.diagnostics:
        report.add(as_written(finding, name, loaded.document) if name and loaded else finding)


def _given(loaded: LoadedRecipe, own: Report, model_is_there: bool) -> _Planned:
    """What is given of a task; errors of one task do not keep the others from being looked at."""
    given = gather(loaded, own)
    facts, selection = (choose_model(loaded, given, own) if given else None) or (None, None)
    facts = replace(facts, model_is_there=model_is_there) if facts else None
    return _Planned(loaded, facts, selection=selection)


def _planned(task: _Planned, beside: Sequence[Context], own: Report, advised: bool) -> _Planned:
    """The task with its plan, where enough is given for one."""
    if task.facts is None:
        return task
    return replace(task, plan=plan_recipe(task.loaded, task.facts, own, task.selection, beside, advised))


def _joined(tasks: Mapping[str, _Planned]) -> Plan | None:
    """The plan of all tasks; None where one of them has none."""
    plans = {name: task.plan for name, task in tasks.items() if task.plan}
    return side_by_side(plans) if plans and len(plans) == len(tasks) else None


def _check_given(task: _Planned, report: Report) -> None:
    if task.facts:
        check_judges(task.loaded, task.facts, report)
    if task.facts and not task.plan:
        check_terms(task.loaded, task.facts, report)


def _plan_checked(task: _Planned, sound: bool) -> Report:
    """What is found about the plan of a task."""
    report = Report()
    if not (task.plan and task.facts):
        return report
    check_stages(task.loaded, task.plan, report)
    check_templates(task.loaded, task.plan, task.facts, report)
    check_answers(task.loaded, task.plan, task.facts, report)
    check_arguments(task.loaded, task.plan, report)
    if sound:
        warn(task.loaded, task.facts, task.plan, report)
    return report


def _job(loaded: LoadedRecipe, facts: Facts, plan: Plan, tasks: Mapping[str, _Planned]) -> Job:
    given = {name: Task(task.loaded, task.facts) for name, task in tasks.items() if name and task.facts}
    parts = ((given.get(stage.stage.task, Task(loaded, facts)), stage) for stage in plan.stages)
    digest = plan_digest((part.loaded, part.facts, stage) for part, stage in parts)
    return Job(loaded, facts, plan, digest, given)


def check_rows(report: Report) -> None:
    """Refuse to compile with rows of data that contradict each other, or that no code is behind."""
    for finding in (*contradictions(), *map(without_code, missing())):
        report.add(finding)


def _lock(loaded: LoadedRecipe) -> LockInputs:
    recipes = {_name(file, loaded.folder): sha256(file.read_bytes()).hexdigest() for file in loaded.files}
    return LockInputs(recipes=recipes, stack=dict(stack()), name=loaded.recipe.recipe.name)


def _name(file: Path, folder: Path) -> str:
    """A file relative to the recipe's folder; a shipped preset by its name, wherever it is installed."""
    shipped = file.is_relative_to(shipped_recipes_folder()) and not file.is_relative_to(folder)
    return f"shipped/{file.name}" if shipped else Path(relpath(file, folder)).as_posix()
