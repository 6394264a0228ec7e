"""Reward modeling with TRL's RewardTrainer, which puts a new head on the model."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import Measure, MethodBackend, no_files, no_names, nothing
from recipec.backends.models import has_template_file
from recipec.backends.parts import Import
from recipec.render.call import Arg
from recipec.render.traced import Raw


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield from stage.own_args()
    if has_template_file(stage) and stage.plan.stage.starts_from is None:
        yield Arg("chat_template_path", Raw('str(BUNDLE / "chat_template.jinja")'), stage.ids("template"))


BACKEND = MethodBackend(
    trainer=None,
    arguments=_arguments,
    takes_template=True,
    part=nothing,
    files=no_files,
    taught="rows/taught/scored.py.j2",
    token_columns=("chosen_ids", "rejected_ids"),
    measure=Measure(
        template="measures/score.py.j2",
        names=no_names,
        by_row=False,
        metrics=("loss", "accuracy", "margin", "mean_reward", "length_correlation", "longer_is_chosen"),
        loss="loss",
        imports=(Import("math"), Import("statistics", "correlation"), Import("statistics", "fmean")),
        reads=("encode",),
        same="the scores of the same rows",
        unit="",
    ),
)
