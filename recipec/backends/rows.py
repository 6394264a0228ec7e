"""rows.py beside a stage's train.py: how its rows become tokens, for preflight.py and for evaluate.py."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.methods import BACKENDS
from recipec.render.artifact import Artifact
from recipec.render.environment import snippet


def rows_artifact(stage: StageJob) -> Artifact:
    """What evaluate.py and preflight.py ask of the stage's rows."""
    ids = stage.ids("data_format", "loss_on", "stage")
    names = {"turns": stage.because(stage.format.turns, "data_format")}
    templates = (f"rows/{stage.kind.template}.py.j2", BACKENDS[stage.name].taught)
    return Artifact(
        f"{stage.folder}rows.py",
        ids,
        "rows.py.j2",
        {
            "stage": stage.traced("stage"),
            "writes": stage.because(stage.method.writes, "stage"),
            "encodes_masked": stage.because(stage.kind.masked, "stage", "loss_on"),
            "has_prompt": stage.because("prompt" in stage.kind.columns, "stage", "loss_on"),
            "functions": [snippet(template, names, ids) for template in templates],
        },
    )
