"""REINFORCE leave-one-out with TRL's RLOOTrainer; transformers writes the answers."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.methods.rloo import CLIP_RANGE
from recipec.backends.job import StageJob
from recipec.backends.methods.backend import MethodBackend
from recipec.backends.methods.online import MEASURE, generation_arguments, reward_artifacts, rewards_part
from recipec.render.call import Arg

_CLIPS = "epsilon"  # which a recipe may hand on


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("beta", "kl_weight", note=True)
    if stage.value("updates") > 1 and _CLIPS not in stage.plan.verbatim:
        most = 1 + stage.plan.verbatim.get("epsilon_high", CLIP_RANGE)
        note = f"the ratio of a whole answer, new to old, counts from {1 - CLIP_RANGE:g} to {most:g}"
        yield Arg(_CLIPS, CLIP_RANGE, stage.ids("updates"), note)
    yield from generation_arguments(stage)


BACKEND = MethodBackend(
    trainer=None,
    arguments=_arguments,
    takes_template=False,
    part=rewards_part,
    files=reward_artifacts,
    taught="rows/taught/prompts.py.j2",
    token_columns=(),
    measure=MEASURE,
)
