"""The compiler: the list of passes, nothing else. Read this first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from os.path import relpath
from pathlib import Path

from msgspec import Struct

from recipec.agreement import contradictions, without_code
from recipec.backends import Job, Start, lower, missing, start_of
from recipec.bundle.lock import LockInputs
from recipec.catalog.stack import stack
from recipec.diagnostics.allow import silence
from recipec.diagnostics.model import Diagnostic, Report
from recipec.facts import Facts, gather, look_up_names
from recipec.planner import Plan, plan_recipe, plan_without_judge
from recipec.planner.advice.limits import check_buildable, check_judges, check_limits, check_templates, check_terms
from recipec.planner.advice.warnings import warn
from recipec.planner.document import plan_digest, plan_json
from recipec.recipe import LoadedRecipe
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


def compile_recipe(path: Path, *, only_plan: bool = False) -> Compilation:
    """Compile the recipe at `path`; reads it and the files it names, writes and prints nothing."""
    report = Report()
    check_rows(report)
    read = None if report.has_errors else read_recipe(path, report)
    if isinstance(read, Draft):
        look_up_names(read, report)
    loaded = read if isinstance(read, LoadedRecipe) else None
    given = gather(loaded, report) if loaded else None
    facts, selection = (choose_model(loaded, given, report) if loaded and given else None) or (None, None)
    plan = plan_recipe(loaded, facts, report, selection) if loaded and facts else None
    sound = plan is not None and not report.has_errors  # else the plan is that of a recipe without what is refused
    if facts and loaded:
        check_judges(loaded, facts, report)
    if facts and loaded and not plan:
        check_terms(loaded, facts, report)
    if plan and facts and loaded:
        fewer = partial(plan_without_judge, loaded, facts, plan)
        check_limits(loaded, facts.model.licence, plan, report, fewer)
        check_templates(loaded, plan, facts, report)
        if sound:
            warn(loaded, facts.model, plan, report)
    if plan and loaded and not only_plan:
        check_buildable(loaded, plan, report)
    allowed = loaded.allowed() if loaded else {}
    diagnostics = silence(report.diagnostics, allowed, complete=sound)
    if report.has_errors or plan is None or loaded is None or facts is None:
        return Compilation(diagnostics, loaded, facts, whole=plan is not None)
    if only_plan:
        return Compilation(diagnostics, loaded, facts, plan)
    job = Job(loaded, facts, plan, plan_digest(loaded, facts, plan))
    files = [render(artifact) for artifact in lower(job)]
    return Compilation(diagnostics, loaded, facts, plan, files, _lock(loaded), start_of(job))


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
