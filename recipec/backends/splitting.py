"""How the parts of the rows come about: files of their own, or shares of those that are learned."""

from __future__ import annotations

from typing import Any

from recipec.backends.job import Job, StageJob
from recipec.backends.prepared_rows import answers_begin, of_conversations, weighs
from recipec.backends.reading import from_files, split_column
from recipec.facts.splitting import FEWEST_ROWS, OWN_CLASSES
from recipec.recipe.schema_data import GENERAL
from recipec.render.traced import Raw


def parts_of_rows(job: Job) -> dict[str, Any]:
    """Which parts of the rows come from files of their own."""
    reads_eval, reads_test = from_files(job, "eval"), from_files(job, "test")
    return {
        "reads_eval": reads_eval,
        "reads_test": reads_test,
        "all_read_eval": all(stage.value("has_eval_file") for stage in job.stages),
        "all_read_test": all(stage.value("has_test_file") for stage in job.stages),
        **_comparing(job),
        "reads_parts": parts_brought(job),
        "reads_general": any(stage.elastic or stage.replays for stage in job.stages),
        "all_read_general": all(stage.elastic or stage.replays for stage in job.stages),
        "split_name": Raw("name" if parts_brought(job) else '"train"'),
        "weighs": weighs(job),
    }


def parts_brought(job: Job) -> bool:
    """Whether files of their own bring rows beside those that are learned."""
    return any(from_files(job, part) for part in ("eval", "test", GENERAL))


def _has(stage: StageJob, part: str) -> bool:
    return bool(stage.value(f"has_{part}_file") or stage.value(f"{part}_fraction"))


def _comparing(job: Job) -> dict[str, Any]:
    """Whether rows for evaluation may be those of the test: where a file brings one of them."""
    both = [_has(stage, "eval") and _has(stage, "test") for stage in job.stages]
    brought = from_files(job, "eval") or from_files(job, "test")
    asked = 'HeldOut().add(splits["test"])' if answers_begin(job.stages) else 'set(splits["test"]["question"][:])'
    return {"all_compare": brought and all(both), "compares_parts": brought and any(both), "asked_of_test": Raw(asked)}


def splitting(job: Job) -> dict[str, Any]:
    """How evaluation and test rows are set aside."""
    split, column = job.loaded.recipe.data.split, split_column(job)
    shared = any(stage.kind.shares_prompts for stage in job.stages)
    return {
        "splits_eval": any(stage.value("eval_fraction") for stage in job.stages),
        "splits_test": any(stage.value("test_fraction") for stage in job.stages),
        "all_split_eval": all(stage.value("eval_fraction") for stage in job.stages),
        "all_split_test": all(stage.value("test_fraction") for stage in job.stages),
        "eval_share": _eval_share(job),
        "splits_by_time": bool(split and split.time),
        "splits_by_group": bool(split and split.group),
        "splits_by_class": bool(split and split.stratify),
        "own_classes": OWN_CLASSES,
        "fewest_rows": FEWEST_ROWS,
        "looks_ahead": bool(split and split.stratify) or any(map(_mixes_sources, job.stages)),
        "splits_by_prompt": column is None and shared,
        "all_conversations": all(map(of_conversations, job.stages)),
        "some_conversations": any(map(of_conversations, job.stages)),
        "split_column": column,
    }


def _mixes_sources(stage: StageJob) -> bool:
    return any(len(stage.sources(part)) > 1 for part in ("", *stage.brought))


def _eval_share(job: Job) -> Raw:
    """The share for evaluation of what the test rows have left."""
    tested = any(stage.value("test_fraction") for stage in job.stages)
    return Raw("stage.eval_fraction" + " / (1 - stage.test_fraction)" * tested)


def requiring(job: Job) -> dict[str, Any]:
    """How many rows are needed, and what may have dropped the others."""
    kinds = [stage.kind for stage in job.stages]
    reasons = {
        "unlearned": any(map(of_conversations, job.stages)),
        "empty": True,
        "duplicates": True,
        "equal": any(len(kind.taught) > 1 for kind in kinds),
        "contradictory": any(kind.flag or len(kind.taught) > 1 for kind in kinds),
        "leaks": True,
        "too_long": any(stage.value("overflow") == "drop" for stage in job.stages),
        "unanswered": any(map(cuts_answers, job.stages)),
    }
    return {
        "needed_rows": _needed_rows(job.stages),
        "drop_reasons": job.because([reason for reason, has in reasons.items() if has], "overflow", "data_format"),
    }


def _needed_rows(stages: list[StageJob]) -> Raw | None:
    """One row for every part that the training data are split into; None where they are not split."""
    counts = [[stage.value(name) > 0 for stage in stages] for name in ("eval_fraction", "test_fraction")]
    always = 1 + sum(all(has) for has in counts)
    names = [name for name, has in zip(("eval", "test"), counts, strict=True) if any(has) and not all(has)]
    needed = " + ".join([str(always), *(f"bool(stage.{name}_fraction)" for name in names)])
    return None if needed == "1" else Raw(needed)


def cuts_answers(stage: StageJob) -> bool:
    """Whether the trainer cuts the end off of what is longer, and the end is an answer."""
    return bool(stage.value("overflow") == "truncate" and not stage.format.splits)
