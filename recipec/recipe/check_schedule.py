"""A warmup that leaves no room for the decay behind it."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic
from recipec.recipe.check_batch import setting
from recipec.recipe.exclusive import STAGES
from recipec.recipe.written import Written
from recipec.rules.schedule import DECAY_SHARE

DECAYS = "warmup-stable-decay"


def no_room_to_decay(written: Written) -> Iterator[Diagnostic]:
    """Warmup and decay together are no more than all steps."""
    for table in (("train",), *(("train", stage) for stage in STAGES)):
        schedule, warmup = setting(written, table, "schedule"), setting(written, table, "warmup")
        if (
            not schedule
            or not warmup
            or not any(written.has(*path) for path in (schedule, warmup) if path[:-1] == table)
        ):
            continue
        if written.get(*schedule) == DECAYS and written.get(*warmup) + DECAY_SHARE > 1:
            labels = (
                written.label(warmup, "the rate rises for this share"),
                written.label(schedule, "and then decays"),
            )
            help = (f"the decay takes {DECAY_SHARE:g} of the steps: a warmup of {1 - DECAY_SHARE:g} at most",)
            yield Diagnostic("E0401", "warmup and decay take more than all steps", labels, help)
