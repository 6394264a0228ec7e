"""The settings of ruff for a bundle: which modules are its own, and which files are the user's."""

from __future__ import annotations

from typing import Any

from recipec.backends.job import Job, StageJob
from recipec.backends.methods import BACKENDS
from recipec.backends.methods.online import FUNCTIONS
from recipec.backends.training import KERNEL, LENGTHS
from recipec.render.artifact import Artifact


def ruff_artifact(job: Job) -> Artifact:
    """ruff.toml, with which the files are formatted and checked."""
    return Artifact("ruff.toml", (), "ruff.toml.j2", _settings(job))


def _settings(job: Job) -> dict[str, Any]:
    """What tools must know of the bundle: its own modules, and the folder with files of the user's."""
    given = FUNCTIONS if any(stage.method.generates for stage in job.stages) else ""
    return {
        "modules": job.because(_modules(job), "stage", "sampling", "attention"),
        "given": job.because(given, "stage"),
    }


def _modules(job: Job) -> list[str]:
    """The bundle's own modules that others of its files import."""
    own = (BACKENDS[stage.name].trainer for stage in job.stages)
    orders = {LENGTHS for stage in job.stages if stage.groups_by_length}
    brought = {_module(stage, file) for stage in job.stages for file in BACKENDS[stage.name].files(stage)}
    kernels = {KERNEL for stage in job.stages if stage.plan.layout.attends.brought}
    return sorted({"preflight", "rows", *orders, *kernels, *(trainer.module for trainer in own if trainer), *brought})


def _module(stage: StageJob, file: Artifact) -> str:
    """By which the scripts of its stage import a file, or the folder that it is in."""
    return file.path.removeprefix(stage.folder).partition("/")[0].removesuffix(".py")
