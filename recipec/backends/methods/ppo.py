"""Proximal policy optimization with a trainer of the bundle's own: TRL 1.16 has none any more.

The policy is its own critic, so that no second model is kept: TRL's PPO, which is gone, and the N+ details
(arXiv 2403.17031) keep one as large as the policy. Log-probabilities come from TRL's fused head, as in GRPO: no logits
of whole rows exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.methods.backend import MethodBackend, OwnTrainer
from recipec.backends.methods.online import MEASURE, reward_artifacts, rewards_part
from recipec.render.artifact import Artifact
from recipec.render.call import Arg
from recipec.render.traced import Raw

_FILES = "critic", "advantages"  # beside the trainer's own


def _arguments(stage: StageJob) -> Iterator[Arg]:
    yield from stage.own_args()
    yield Arg("value_clip_range", stage.value("clip_range"), stage.ids("clip_range"))
    yield Arg("reward_weights", Raw("WEIGHTS"), stage.ids("rewards"))


def _sides(stage: StageJob) -> Mapping[str, Any]:
    """What the trainer has to know of the sides of its stage."""
    return {"adapter": stage.because(not stage.adapts.trains_all, "adaptation")}


def _files(stage: StageJob) -> list[Artifact]:
    """The model with a value head, the arithmetic, and the rewards."""
    own = [Artifact(f"{stage.folder}{name}.py", stage.ids("stage"), f"trl/{name}.py.j2", {}) for name in _FILES]
    return [*own, *reward_artifacts(stage)]


BACKEND = MethodBackend(
    trainer=OwnTrainer(
        module="ppo_trainer", template="trl/ppo_trainer.py.j2", names=_sides, name="PPOTrainer", config="PPOConfig"
    ),
    arguments=_arguments,
    takes_template=False,
    part=rewards_part,
    files=_files,
    taught="rows/taught/prompts.py.j2",
    token_columns=(),
    measure=MEASURE,
)
