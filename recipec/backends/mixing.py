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
    replay = [stage for stage in stages if stage.replays]
    first, ids = (replay or stages)[0], ["replay"] * bool(replay)
    return {
        "replays": first.because(bool(replay), *ids),
        "all_replay": first.because(len(replay) == len(stages), *ids),
        "some_hold": first.because(any(stage.elastic and not stage.replays for stage in stages), *ids),
        "general_held_out": first.traced("general_held_out") if replay else 0,
        "most_off": MOST_OFF,
        "lost_rows_named": code(first, "{which}" if replay else "rows", *ids),
    }
