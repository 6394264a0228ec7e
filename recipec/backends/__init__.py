"""The back ends: a plan becomes artifacts; no text and no arithmetic of their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from recipec.axes import ADAPTATIONS, KINDS, LORA_VARIANTS, METHODS, ROW_FORMATS
from recipec.axes.loops import LOOPS
from recipec.axes.strategies import ENGINES
from recipec.backends import adaptations, engines, loops, methods
from recipec.backends.adaptations import names_of
from recipec.backends.card import card_artifact
from recipec.backends.combining import combining_artifacts
from recipec.backends.configs import config_artifacts
from recipec.backends.documents import document_artifacts
from recipec.backends.evaluation import evaluation_artifact
from recipec.backends.job import Job, StageJob, Task
from recipec.backends.launchers import Start, launch_artifacts, launchers_for, start_of
from recipec.backends.merging import merge_artifact
from recipec.backends.own_loop import loop_artifacts
from recipec.backends.preparation import preparation_artifacts
from recipec.backends.registry import registry_artifacts
from recipec.backends.rows import rows_artifact
from recipec.backends.templates import template_artifacts
from recipec.backends.text_part import text_part_artifacts
from recipec.backends.training import summary, trainer_artifacts
from recipec.backends.vocabulary import vocabulary_artifacts
from recipec.recipe.schema import LAUNCH_WITH, NO_SCRIPT
from recipec.render.artifact import Artifact
from recipec.render.environment import templates_folder


def missing() -> Iterator[str]:
    """Sentences, each with the name of a row and of the file behind it that is not there."""
    needed = (
        ("method", methods, methods.BACKENDS, {name: [name] for name in METHODS}),
        ("engine", engines, engines.BACKENDS, {name: [name] for name in ENGINES}),
        ("adaptation", adaptations, adaptations.FILES, {row.name: names_of(row) for row in ADAPTATIONS.values()}),
        ("loop", loops, loops.CODES, {name: [name] * row.own for name, row in LOOPS.items()}),
        (
            "variant",
            adaptations,
            adaptations.VARIANTS,
            {name: [name] * row.own_code for name, row in LORA_VARIANTS.items()},
        ),
    )
    for axis, package, files, rows in needed:
        folder = package.__name__.replace(".", "/")
        for row, names in rows.items():
            for name in (name for name in names if name not in files):
                yield f"{axis} `{row}` has no file behind it: {folder}/{name.replace('-', '_')}.py"
    for asked, several in product([value for value in LAUNCH_WITH if value != NO_SCRIPT], (False, True)):
        if not launchers_for(asked, several):
            nodes = "several nodes" if several else "one node"
            yield f"launch.with = `{asked}` has no launcher for {nodes} in recipec/backends/launchers"
    for row, template in _templates():
        if not (templates_folder() / template).is_file():
            yield f"{row} has no file behind it: templates/{template}"


def _templates() -> Iterator[tuple[str, str]]:
    """The rows behind which a template is, and the template."""
    yield from ((f"kind `{name}`", f"rows/{kind.template}.py.j2") for name, kind in KINDS.items())
    for name, row in ROW_FORMATS.items():
        yield f"format `{name}`", f"data/formats/{name.replace('-', '_')}.py.j2"
        if row.unrolled:
            yield f"format `{name}`", f"data/unrolled/{row.kind}.py.j2"


def training_artifacts(stage: StageJob) -> list[Artifact]:
    """The Python files that train one stage."""
    files = list(loop_artifacts(stage)) if stage.loop.own else trainer_artifacts(stage)
    return [*files, merge_artifact(stage)] if stage.adapts.merges else files


def lower(job: Job) -> list[Artifact]:
    """Every file of the bundle, in the order of its README."""
    files: list[Artifact] = []
    for stage in job.stages:
        files += [*training_artifacts(stage), rows_artifact(stage), evaluation_artifact(stage)]
    files += [*preparation_artifacts(job), *text_part_artifacts(job), *vocabulary_artifacts(job)]
    files += [*template_artifacts(job), *combining_artifacts(job)]
    configs = {artifact.path: artifact for stage in reversed(job.stages) for artifact in config_artifacts(stage)}
    files += [*configs.values(), *launch_artifacts(job), *registry_artifacts(job)]
    files += [card_artifact(stage, summary(stage)) for stage in job.stages]
    return document_artifacts(job, {artifact.path for artifact in files}) + files


__all__ = ["Job", "Start", "Task", "lower", "missing", "start_of"]
