"""How the parts of the rows come about: files of their own, or shares of those that are learned."""

from __future__ import annotations

from typing import Any

from recipec.backends.job import Job, StageJob
from recipec.backends.prepared_rows import answers_begin, keeps_together, of_conversations, weighs
from recipec.backends.reading import from_files, split_column
from recipec.facts.converting import SKIP
from recipec.facts.held_out import HELD_OUT
from recipec.facts.splitting import FEWEST_ROWS, OWN_CLASSES
from recipec.recipe.schema_data import GENERAL
from recipec.render.call import assigned
from recipec.render.traced import Raw, fragment

_WAY_OF_FILES = "Remove these questions from {}, or these rows from the training data."
_WAY_OF_BEGINNINGS = (
    "Remove conversations that are only the beginning of others, or name files in data.eval and data.test."
)


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


def _drops_greetings(job: Job) -> list[str]:
    """The parts drawn by group, which may hold out a conversation that others go on from."""
    split = job.loaded.recipe.data.split
    if not (split and split.group and answers_begin(job.stages)):
        return []
    return [part for part in HELD_OUT if any(stage.value(f"{part}_fraction") for stage in job.stages)]


def _by_column(job: Job) -> bool:
    """Whether rows that ask the same may be drawn into several parts: a column decides which stay together."""
    split = job.loaded.recipe.data.split
    return bool(split and (split.group or split.stratify or split.time))


def leaking(job: Job) -> dict[str, Any]:
    """Whether rows to train on may ask what their own stage holds out, and what a user can do about it."""
    drawn = any(map(_draws, job.stages))
    files = " and ".join(_files_held_out(job))
    by_column = bool(not files and drawn and _by_column(job))
    begin = drawn and answers_begin(job.stages)
    way = _WAY_OF_FILES.format(files) if files else _WAY_OF_BEGINNINGS
    return {"checks_leaks": bool(files or by_column or begin), "leaks_by_column": by_column, "ways_to_part": way}


def _files_held_out(job: Job) -> list[str]:
    return [f"data.{part}" for part in HELD_OUT if from_files(job, part)]


def _draws(stage: StageJob) -> bool:
    return any(stage.value(f"{part}_fraction") for part in HELD_OUT)


def _comparing(job: Job) -> dict[str, Any]:
    """Whether rows for evaluation may ask what the test asks.

    That is where a file brings one of them, a column decides what stays together, or conversations begin alike.
    """
    both = [_has(stage, "eval") and _has(stage, "test") for stage in job.stages]
    brought = from_files(job, "eval") or from_files(job, "test") or _by_column(job) or keeps_together(job)
    asked = 'HeldOut().add(splits["test"])' if answers_begin(job.stages) else 'set(values(splits["test"], "question"))'
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
        "drops_greetings": _drops_greetings(job),
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
    kinds, compare = [stage.kind for stage in job.stages], any(len(stage.kind.taught) > 1 for stage in job.stages)
    reasons = {
        "incomplete": ("incomplete rows", job.loaded.recipe.data.incomplete == SKIP),
        "unlearned": ("conversations without a learned answer", any(map(of_conversations, job.stages))),
        "empty": ("rows with nothing to learn", True),
        "duplicates": ("exact duplicates", True),
        "equal": ("pairs with equal answers", compare),
        "contradictory": ("rows that contradict others", compare or any(kind.flag for kind in kinds)),
        "leaks": ("rows with a held-out question", True),
        "greetings": ("held-out beginnings of conversations to train on", bool(_drops_greetings(job))),
        "own": ("general rows that are also training rows", any(stage.replays for stage in job.stages)),
        "too_long": ("rows over max_length", any(stage.value("overflow") == "drop" for stage in job.stages)),
        "unanswered": ("rows with no answer within max_length", any(map(cuts_answers, job.stages))),
    }
    told = assigned("LEFT_OUT", {reason: words for reason, (words, has) in reasons.items() if has})
    return {
        "needed_rows": _needed_rows(job.stages),
        "left_out": fragment(told, job.ids("overflow", "data_format", "incomplete")),
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
