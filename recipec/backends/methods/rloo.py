"""REINFORCE leave-one-out with TRL's RLOOTrainer; transformers writes the answers."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import MethodBackend
from recipec.backends.methods.online import MEASURE, generation_arguments, reward_artifacts, rewards_part
from recipec.render.call import Arg


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("beta", "kl_weight", note=True)
    yield from generation_arguments(stage)


BACKEND = MethodBackend(
    trainer=None,
    arguments=_arguments,
    takes_template=False,
    part=rewards_part,
    files=reward_artifacts,
    taught="rows/taught/prompts.py.j2",
    measure=MEASURE,
)
