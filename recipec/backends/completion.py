"""The completion checklist of README.md, judged by what the bundle really has."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from recipec.backends.intervals import saves
from recipec.backends.job import Job, StageJob
from recipec.backends.trackers import trackers
from recipec.render.traced import fragment
from recipec.rules.checklist import Checked, completion
from recipec.rules.evaluation import training_tokens
from recipec.units import counted


def checked(job: Job, paths: Collection[str], documented: bool) -> list[Any]:
    """Every item with its mark; `paths` are the bundle's other files, `documented`: README.md gives every reason."""
    stages = job.stages
    prepares = "prepare_data.py" in paths
    facts = {
        "adaptation_justified": all(stage.plan.decisions["adaptation"].because for stage in stages),
        "data_prepared": prepares,
        "decisions_documented": documented,
        "launch_configured": any(path.startswith("launch/") for path in paths),
        "baseline_evaluation": _each_has(job, "evaluate.py", paths),
        "anti_patterns_checked": prepares and _each_has(job, "preflight.py", paths),
        "tracking": all(trackers(stage) for stage in stages),
        "cost_estimated": job.plan.cost_usd is not None,
        "registry_entry": "registry/entry.json" in paths,
        "deduplicated": prepares and all(stage.value("deduplication") == "exact" for stage in stages),
        "batch_at_least_32": all(_rows_of_batch(stage) >= 32 for stage in stages),
        "best_checkpoint": all(saves(stage) for stage in stages),
    }
    batch = _batch(min(stages, key=_rows_of_batch))
    rows = completion(facts, {stage.method.judged_by for stage in stages}, batch)
    return [_check(job, row) for row in rows if not (job.last.on_cpu and row.text.startswith("GPU"))]


def _each_has(job: Job, script: str, paths: Collection[str]) -> bool:
    return all(f"{stage.folder}{script}" in paths for stage in job.stages)


def _rows_of_batch(stage: StageJob) -> float:
    """The rows of an optimizer step: of packed examples those that its sequences hold; documents count as blocks."""
    sequences, length = stage.plan.layout.global_batch, training_tokens(stage.values)
    return sequences * max(1.0, stage.value("max_length") / length) if stage.packs_examples else sequences


def _batch(stage: StageJob) -> str:
    """What an optimizer step learns from."""
    sequences, rows = stage.plan.layout.global_batch, round(_rows_of_batch(stage))
    if stage.packs_examples:
        return f"about {counted(rows, 'row')} in {counted(sequences, 'packed sequence')}"
    return counted(sequences, "block" if stage.method.of_text else stage.method.example)


def _check(job: Job, row: Checked) -> Any:
    ids = ("gpu_price", "global_batch_size", "tracker", "save_every", "deduplication")
    mark = fragment("x" if row.met else " ", job.ids(*ids))
    return SimpleNamespace(text=row.text, how=job.because(row.how, *ids), mark=mark, after=row.after)
