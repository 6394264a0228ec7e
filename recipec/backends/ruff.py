"""The settings of ruff for a bundle: which modules are its own, and which files are the user's."""

from __future__ import annotations

from typing import Any

from recipec.backends.companions import own_modules
from recipec.backends.job import Job
from recipec.backends.models import added_by
from recipec.backends.wrapped import FUNCTIONS
from recipec.render.artifact import Artifact


def ruff_artifact(job: Job) -> Artifact:
    """ruff.toml, with which the files are formatted and checked."""
    return Artifact("ruff.toml", (), "ruff.toml.j2", _settings(job))


def _settings(job: Job) -> dict[str, Any]:
    """What tools must know of the bundle: its own modules, and the folder with files of the user's."""
    given = FUNCTIONS if any(stage.method.generates for stage in job.stages) else ""
    decided = "stage", "sampling", "attention", "adaptation", "quantization", "strategy", "generator"
    decided += "capacity_factor", *added_by(job.last)
    return {
        "modules": job.because(own_modules(job), *decided),
        "given": job.because(given, "stage"),
    }
