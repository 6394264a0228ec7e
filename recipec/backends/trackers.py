"""Where the metrics of a stage are recorded."""

from __future__ import annotations

from collections.abc import Sequence

from recipec.backends.job import StageJob

# What a launch script says where a tracker that wants an account finds no login; the others need none.
LOGINS = {
    "wandb": "The run is recorded by W&B, and there is no login. Set WANDB_API_KEY, run wandb login, or set "
    "WANDB_MODE=offline."
}


def login(stages: Sequence[StageJob]) -> str:
    """What to say where no login is found for the tracker of one of the stages; "" where none needs one."""
    return next((LOGINS[name] for stage in stages for name in trackers(stage) if name in LOGINS), "")


def trackers(stage: StageJob) -> list[str]:
    """Where the run is recorded."""
    chosen = stage.value("tracker")
    return [name for name in ([chosen] if isinstance(chosen, str) else chosen) if name != "none"]
