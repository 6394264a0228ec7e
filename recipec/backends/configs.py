"""The configuration files of a stage's strategy."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.render.artifact import Artifact
from recipec.sharders import Run


def config_artifacts(stage: StageJob) -> list[Artifact]:
    """configs/*: only those that the strategy uses; later stages with the same content add nothing."""
    run = Run(
        layout=stage.plan.layout,
        architecture=stage.job.facts.model.architecture,
        max_grad_norm=stage.value("max_grad_norm"),
        ids=stage.ids,
    )
    files = stage.sharder.files(run)
    return [Artifact(config_path(stage, path), stage.ids("strategy"), mapping=files[path]) for path in files]


def config_path(stage: StageJob, path: str) -> str:
    """configs/NAME for a single stage, configs/STAGE/NAME for several."""
    return path.replace("configs/", f"configs/{stage.name}/", 1) if stage.folder and path else path
