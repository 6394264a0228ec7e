"""rows.py beside a stage's train.py: how its rows become tokens, for preflight.py and for evaluate.py."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.methods import BACKENDS
from recipec.backends.models import MARKED_TEMPLATE, bundle_root
from recipec.render.artifact import Artifact
from recipec.render.environment import snippet


def rows_artifact(stage: StageJob) -> Artifact:
    """What evaluate.py and preflight.py ask of the stage's rows."""
    ids = stage.ids("data_format", "loss_on", "stage")
    trl = stage.kind.masked and stage.value("template") == "model" and not stage.marks_turns
    from_trl = stage.because(trl, "stage", "loss_on", "template")
    marks_turns = stage.because(stage.marks_turns, "stage", "loss_on", "template")
    names = {
        "turns": stage.because(stage.format.turns, "data_format"),
        "from_trl": from_trl,
        "marks_turns": marks_turns,
    }
    templates = (f"rows/{stage.kind.template}.py.j2", BACKENDS[stage.name].taught)
    return Artifact(
        f"{stage.folder}rows.py",
        ids,
        "rows.py.j2",
        {
            "stage": stage.traced("stage"),
            "writes": stage.because(stage.method.writes, "stage"),
            "from_trl": from_trl,
            "marks_turns": marks_turns,
            "bundle_root": bundle_root(stage),
            "marked_template": MARKED_TEMPLATE,
            "has_prompt": stage.because("prompt" in stage.kind.columns, "stage", "loss_on"),
            "functions": [snippet(template, names, ids) for template in templates],
        },
    )
