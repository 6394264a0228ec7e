"""Classes that sampled answers spell in several ways, which a model learns as several (W0552)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from recipec.axes.row_formats import PROMPT_COMPLETION
from recipec.dataset.classes import class_columns
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_MOST_LISTED = 5


def spelled_in_several_ways(
    loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]
) -> Iterator[Diagnostic]:
    """Yield W0552 for answers that are classes, and differ in letters and spaces alone from others."""
    alike = {word: said for source in sources for word, said in _spellings(source).items() if len(said) > 1}
    if not alike:
        return
    listed = "; ".join(", ".join(map(_quoted, said)) for said in [*alike.values()][:_MOST_LISTED])
    title = f"answers of data.{section} spell the same class in several ways"
    label = Label(loaded.place("data", section), f"learned as different answers: {listed}")
    help = (
        "write each class in one way, without spaces around it",
        'if they are different classes, write allow = ["W0552"] under [recipe]',
    )
    yield Diagnostic("W0552", title, (label,), help)


def _spellings(source: SampledSource) -> dict[str, list[str]]:
    """Each class without its case and spaces -> how answers spell it; {} where answers are no classes."""
    name = source.shape.columns.get("completion", "")
    if source.shape.format != PROMPT_COMPLETION.name or not (source.rows and class_columns(source.rows, [name])):
        return {}
    found: dict[str, dict[str, None]] = {}
    for said in (row[name] for row in source.rows if isinstance(row.get(name), str)):
        found.setdefault(" ".join(said.casefold().split()), {})[said] = None
    return {word: [*said] for word, said in found.items()}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
