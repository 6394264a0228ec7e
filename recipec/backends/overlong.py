"""What becomes of rows that are longer than max_length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.splitting import cuts_answers
from recipec.render.traced import Raw, Traced


def handling(stage: StageJob) -> str:
    """What becomes of rows that are too long: the trainer cuts blocks of text itself, at any length."""
    if cuts_answers(stage):
        return "cut"
    return "blocks" if stage.value("overflow") == "split" and stage.value("packing") else stage.value("overflow")


def stages_differ(stages: list[StageJob]) -> bool:
    """Whether the stages handle them in different ways."""
    return len(set(map(handling, stages))) > 1


def selecting(stages: list[StageJob]) -> dict[str, Any]:
    """What is done to rows that are too long."""
    return {
        "overflow_differs": _overflow(stages, stages_differ(stages)),
        "overflow_drop": _overflow(stages, any(stage.value("overflow") == "drop" for stage in stages)),
        "overflow_split": _overflow(stages, any(_splits(stage) for stage in stages)),
        "overflow_cut": _overflow(stages, any(map(cuts_answers, stages))),
        **_kept_lengths(stages),
    }


_CUTTING = ["cut", "truncate"]  # of `handling`: the trainer reads max_length tokens of a longer row


def _kept_lengths(stages: list[StageJob]) -> dict[str, Any]:
    """How the tokens that training reads are counted, where it does not read the end of long rows."""
    cut = [handling(stage) in _CUTTING for stage in stages]
    counted = "kept_lengths({0}, stage)" if any(cut) else 'values({0}, "length")'
    return {
        "truncates": _overflow(stages, any(cut)),
        "truncates_all": _overflow(stages, all(cut)),
        "cutting": _CUTTING,
        "kept_of_rows": _overflow(stages, Raw(counted.format("rows"))),
        "kept_of_general": _overflow(stages, Raw(counted.format("general"))),
    }


def losing(stages: list[StageJob]) -> dict[str, Any]:
    """What is said where too many rows are over max_length."""
    drops, cuts = any(stage.value("overflow") == "drop" for stage in stages), any(map(cuts_answers, stages))
    return {
        "loses_rows": drops or cuts,
        **_enough(stages, drops),
        "max_dropped": stages[0].traced("dropped_rows_limit"),
        "may_truncate": stages[0].job.because(drops and all(stage.method.truncates for stage in stages), "overflow"),
        "ways_to_keep": stages[0].job.because(_ways_to_keep(stages), "max_length", "max_position"),
        "other_blocks": _other_blocks(stages),
    }


def _ways_to_keep(stages: Sequence[StageJob]) -> str:
    """What a user can do about rows over max_length; it cannot be raised above the model's context."""
    context = stages[0].value("max_position")
    if _at_the_limit(stages):
        return f"Split or remove these rows: the context of the model ends at {context:,} tokens."
    limit = f" (the context of the model: {context:,} tokens)" * bool(context)
    return f"Raise `max_length` under [data]{limit} and build again."


def _enough(stages: Sequence[StageJob], drops: bool) -> dict[str, Traced]:
    """Up to which length it is said what would be enough: the model's context; none where max_length is that."""
    context, because = stages[0].value("max_position"), stages[0].job.because
    within = context if drops and not _at_the_limit(stages) else None
    ids = "max_length", "max_position", "overflow"
    return {"enough_within": because(within, *ids), "enough_at_any": because(drops and not context, *ids)}


def _at_the_limit(stages: Sequence[StageJob]) -> bool:
    context = stages[0].value("max_position")
    return bool(context) and all(stage.value("max_length") >= context for stage in stages)


def _other_blocks(stages: Sequence[StageJob]) -> str:
    """Which stages cut their text into blocks of max_length, too: their blocks may be longer or shorter by default."""
    if len(stages) == 1 or _at_the_limit(stages):
        return ""
    blocks = [
        f"{stage.name}'s blocks (now {stage.value('max_length'):,} tokens)"
        for stage in stages
        if handling(stage) == "blocks"
    ]
    return f" It is also the length of {' and '.join(blocks)}." * bool(blocks)


def _overflow(stages: list[StageJob], used: bool | Raw) -> Traced:
    return stages[0].job.because(used, "overflow", "packing")


def _splits(stage: StageJob) -> bool:
    """Whether long texts are cut into pieces here; packing cuts them itself."""
    return stage.value("overflow") == "split" and not stage.value("packing")
