"""Rows that lack what their format needs, where prepare_data.py leaves them out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from recipec.axes import ROW_FORMATS, Role
from recipec.axes.row_formats import EITHER, FLAG_TEXTS, FLAGS, FROM_VALUE, MESSAGES
from recipec.backends.job import StageJob
from recipec.backends.reading import Way, mixes_formats, ways_to_write
from recipec.facts.converting import SKIP
from recipec.render.call import assigned
from recipec.render.traced import Raw


def leaving_out(stages: list[StageJob]) -> dict[str, Any]:
    """What rows need, where those that lack it are left out."""
    job, ways = stages[0].job, ways_to_write(stages)
    skips = job.loaded.recipe.data.incomplete == SKIP
    facts = job.facts
    judged_by = {*facts.rewards.columns, *facts.acting.columns}
    needed = {way.name: _needed(way, judged_by) for way in sorted(ways, key=lambda way: way.name)}
    labels = list(dict.fromkeys(way.shape.columns[role.name] for way in ways for role in _flags(way)))
    of_source = "part, source in zip(raw, sources, strict=True)" if mixes_formats(job) else "part in raw"
    return {
        "skips_incomplete": job.because(skips, "incomplete"),
        "needed_by_format": assigned("NEEDED", needed),
        "part_with_source": Raw(of_source),
        "has_messages": any(map(_has_messages, ways)),
        "begun_answers": assigned("ANSWERS", _begun_answers(ways)) if _begun_answers(ways) else "",
        "label_columns": tuple(labels),
        "label_column": labels[0] if len(labels) == len(ways) == 1 else "",
        "label_texts": assigned("LABELS", [text for pair in FLAG_TEXTS.values() for text in pair]),
    }


def _needed(way: Way, judged_by: Collection[str]) -> list[str]:
    """The columns without which a row is of no use: of its format, and those by which its answers are judged."""
    format, columns = ROW_FORMATS[way.shape.format], way.shape.columns
    needed = [columns[role.name] for role in format.required]
    needed += [name for role, name in columns.items() if role == format.implicit]
    return [*needed, *(name for name in way.shape.handed if name in judged_by and name not in needed)]


def _has_messages(way: Way) -> bool:
    return way.shape.content in (MESSAGES, EITHER, FROM_VALUE)


def _begun_answers(ways: Collection[Way]) -> dict[str, list[str]]:
    """Column that asks -> the columns of answers that may begin with what is asked instead."""
    found = {}
    for way in filter(_has_messages, ways):
        format, columns = ROW_FORMATS[way.shape.format], way.shape.columns
        if format.implicit in columns:
            found[columns[format.implicit]] = [columns[role.name] for role in format.required]
    return found


def _flags(way: Way) -> list[Role]:
    return [role for role in ROW_FORMATS[way.shape.format].required if role.holds == FLAGS]
