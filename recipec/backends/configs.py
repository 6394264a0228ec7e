"""The configuration files of a stage's strategy."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.backends.job import StageJob
from recipec.render.artifact import Artifact
from recipec.render.mapping import render_mapping
from recipec.render.traced import visible


def config_artifacts(stage: StageJob) -> list[Artifact]:
    """configs/*: only those that the strategy uses; later stages with the same content add nothing."""
    folder = config_path(stage, "configs/").removesuffix("/")
    files = stage.engine.files(replace(stage.run, folder=folder))
    return [Artifact(config_path(stage, path), stage.ids("strategy"), mapping=files[path]) for path in files]


def config_path(stage: StageJob, path: str) -> str:
    """configs/NAME; configs/STAGE/NAME where the stages of a recipe need different ones."""
    if not path or len({_text(other) for other in stage.job.stages}) == 1:
        return path
    return path.replace("configs/", f"configs/{stage.name}/", 1)


def _text(stage: StageJob) -> str:
    """Everything that a stage's configuration files say."""
    files = stage.engine.files(stage.run)
    return "".join(path + visible(render_mapping(files[path], "yaml")) for path in files)
