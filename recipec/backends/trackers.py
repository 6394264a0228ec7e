"""Where the metrics of a stage are recorded."""

from __future__ import annotations

from recipec.backends.job import StageJob


def trackers(stage: StageJob) -> list[str]:
    """Where the run is recorded."""
    chosen = stage.value("tracker")
    return [name for name in ([chosen] if isinstance(chosen, str) else chosen) if name != "none"]
