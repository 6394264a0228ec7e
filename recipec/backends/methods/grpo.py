"""Group relative policy optimization with TRL's GRPOTrainer.

Every argument that tells the variants apart is written out, because three of TRL's defaults contradict their papers.
"""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.variants import VARIANTS, Variant
from recipec.backends.acting import played
from recipec.backends.job import StageJob
from recipec.backends.methods.backend import MethodBackend
from recipec.backends.methods.online import MEASURE, generation_arguments, reward_artifacts, rewards_part
from recipec.render.call import Arg


def _arguments(stage: StageJob) -> Iterator[Arg]:
    row, ids = VARIANTS[stage.value("variant")], stage.ids("variant")
    yield Arg("loss_type", row.loss_type, ids, row.means if row.loss_type == row.name else f"{row.name}: {row.means}")
    yield Arg("importance_sampling_level", row.importance_sampling_level, ids)
    yield Arg("scale_rewards", row.scale_rewards, ids)
    yield from _clipping(stage, row)
    yield Arg("mask_truncated_completions", row.mask_truncated_completions, ids)
    uncast = row.head_in_fp32 and not stage.adapts.trains_all and stage.job.facts.model.architecture.tie_embeddings
    note = f"{row.name} computes it in fp32; TRL does not where an adapter has a tied head" if uncast else ""
    yield Arg("cast_lm_head_to_fp32", row.head_in_fp32 and not uncast, (*ids, *stage.ids("adaptation")), note)
    yield stage.arg("beta", "kl_beta")
    if stage.value("kl_beta"):
        yield Arg("use_bias_correction_kl", True, stage.ids("kl_beta"), "the KL of the policy that learns")
    yield from generation_arguments(stage)


def _clipping(stage: StageJob, row: Variant) -> Iterator[Arg]:
    """How far a probability may move; that of answers which the very weights wrote has not moved."""
    rising, falling = row.gate_temperatures or (None, None)
    limits = {
        "epsilon": row.epsilon,
        "epsilon_high": row.epsilon_high,
        "sapo_temperature_pos": rising,
        "sapo_temperature_neg": falling,
    }
    note = row.clips if stage.value("updates") > 1 else _RATIO_OF_1
    for name, value in limits.items():
        if value is not None:
            yield Arg(name, value, stage.ids("variant", "updates"), note)
            note = ""


_RATIO_OF_1 = "acts from 2 updates of a generation on; with 1 the ratio of probabilities is 1"

BACKEND = MethodBackend(
    trainer=None,
    arguments=_arguments,
    takes_template=False,
    part=rewards_part,
    files=reward_artifacts,
    taught="rows/taught/prompts.py.j2",
    token_columns=(),
    measure=MEASURE,
    played=played,
)
