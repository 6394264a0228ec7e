"""What marks the assistant's turns in the model's own chat template."""

from __future__ import annotations

from recipec.backends.job import Job
from recipec.backends.models import MARKED_TEMPLATE
from recipec.render.artifact import Artifact


def template_artifacts(job: Job) -> list[Artifact]:
    """The file that marks turns, where a stage's template has no marks of its own."""
    marking = [stage for stage in job.stages if stage.marks_turns]
    ids = tuple(id for stage in marking for id in stage.ids("template", "template_marks", "loss_on"))
    return [Artifact(MARKED_TEMPLATE, ids, "chat/marked.jinja.j2")] * bool(marking)
