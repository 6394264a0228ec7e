"""The model card of a stage's result: the README.md in its folder, in place of what TRL and PEFT write there.

TRL 1.16 calls every result a fine-tuned version of its model, names `None` where that is a folder, and loads the model
`None` in its example (trl/templates/lm_model_card.md); PEFT 0.21 writes headings without text.
"""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.models import added_by, starting_point
from recipec.backends.told_rows import sources_told
from recipec.facts.model import is_path
from recipec.render.artifact import Artifact
from recipec.render.traced import Traced


def card_artifact(stage: StageJob, summary: Traced) -> Artifact:
    """The card, which is put beside the weights; `summary` says in a sentence what is trained."""
    model, ids = stage.job.facts.model, stage.ids("adaptation", "stage", "model")
    made_of = stage.plan.stage.starts_from is None and not stage.method.random_weights and not is_path(model.name)
    names = {
        "base_model": stage.because(model.name if made_of else "", "model", "stage"),
        "library": stage.because("transformers" if stage.adapts.trains_all else "peft", "adaptation"),
        "title": stage.job.name + f", stage {stage.name}" * bool(stage.folder),
        "description": stage.job.loaded.recipe.recipe.description,
        "summary": summary,
        "base": stage.because(_base(stage), "model", "stage", *added_by(stage)),
        "rows": stage.because(sources_told(stage), "data_format"),
        "adapter": stage.because(not stage.adapts.trains_all, "adaptation"),
        "stage": stage.named,
    }
    return Artifact(card_path(stage), ids, "model_card.md.j2", names)


def card_path(stage: StageJob) -> str:
    """Its path in the bundle."""
    return f"registry/model_card-{stage.name}.md" if stage.folder else "registry/model_card.md"


def _base(stage: StageJob) -> str:
    start = starting_point(stage)
    return f"random weights, architecture of {start}" if stage.method.random_weights else start


def has_card_of_trl(stage: StageJob) -> Traced:
    """Whether its trainer writes one with every checkpoint."""
    return stage.because(stage.method.module.startswith("trl"), "stage")
