"""The back ends: a plan becomes artifacts; no text and no arithmetic of their own."""

from __future__ import annotations

from recipec.backends.configs import config_artifacts
from recipec.backends.documents import document_artifacts
from recipec.backends.evaluation import evaluation_artifact
from recipec.backends.job import Job
from recipec.backends.launchers import Start, launch_artifacts, start_of
from recipec.backends.preparation import preparation_artifacts
from recipec.backends.registry import registry_artifacts
from recipec.backends.rows import rows_artifact
from recipec.backends.training import training_artifacts
from recipec.render.artifact import Artifact


def lower(job: Job) -> list[Artifact]:
    """Every file of the bundle, in the order of its README."""
    files = document_artifacts(job)
    for stage in job.stages:
        files += [*training_artifacts(stage), rows_artifact(stage), evaluation_artifact(stage)]
    files += preparation_artifacts(job)
    configs = {artifact.path: artifact for stage in reversed(job.stages) for artifact in config_artifacts(stage)}
    return files + list(configs.values()) + launch_artifacts(job) + registry_artifacts(job)


__all__ = ["Job", "Start", "lower", "start_of"]
