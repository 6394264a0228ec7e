"""In which order prepare_data.py puts the rows of training, and which general rows it puts among them."""

from __future__ import annotations

from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.models import code
from recipec.backends.prepared_rows import asks_hardness

# The share of general tokens may differ from the stated one by this much: rows are whole, and a run cannot tell.
MOST_OFF = 0.02


def ordering(stages: list[StageJob]) -> dict[str, Any]:
    """How the rows of a curriculum are put from easy to hard."""
    ordered = [stage.ordered for stage in stages]
    found = {
        "orders": any(ordered),
        "all_order": all(ordered),
        "hardness": asks_hardness(stages),
        "all_hard": all(stage.hardness_column for stage in stages),
        "some_by_length": any(stage.ordered and not stage.hardness_column for stage in stages),
    }
    return {name: stages[0].job.because(value, "sampling") for name, value in found.items()}


def replaying(stages: list[StageJob]) -> dict[str, Any]:
    """Which stages learn general rows, and how many of these no stage learns."""
    replaying = [stage for stage in stages if stage.replays]
    first, ids = (replaying or stages)[0], ["replay"] * bool(replaying)
    return {
        "replays": first.because(bool(replaying), *ids),
        "all_replay": first.because(len(replaying) == len(stages), *ids),
        "some_hold": first.because(any(stage.elastic and not stage.replays for stage in stages), *ids),
        "general_held_out": first.traced("general_held_out") if replaying else 0,
        "most_off": MOST_OFF,
        "lost_rows_named": code(first, "{which}" if replaying else "rows", *ids),
    }
