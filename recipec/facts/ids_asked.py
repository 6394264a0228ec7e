"""Prompts that only name a row, such as "p17": the model would learn to answer without a question (W0565)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from recipec.axes import ROW_FORMATS
from recipec.dataset.column_names import are_ids, asks
from recipec.dataset.contents import NOTHING
from recipec.dataset.rewriting import naming
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

_FEWEST = 10  # rows: a few short prompts may all differ and have a digit; recipec's choice


def ids_as_prompts(loaded: LoadedRecipe, section: str, sources: Sequence[SampledSource]) -> Iterator[Diagnostic]:
    """Yield W0565 where all sampled prompts are ids that differ from each other."""
    for source in (source for source in sources if len(source.rows) >= _FEWEST):
        asked = next((role.name for role in ROW_FORMATS[source.shape.format].roles if role.becomes == "prompt"), "")
        name = source.shape.columns.get(asked, "")
        values = [row[name] for row in source.rows if row.get(name) not in NOTHING]
        if are_ids(values):
            others = [naming(source.shape, asked, other) for other in _texts(source)]
            yield _warning(loaded, section, f"in `{name}` are ids, such as {json.dumps(values[0])}", others)


def _warning(loaded: LoadedRecipe, section: str, what: str, others: Sequence[str]) -> Diagnostic:
    label = Label(loaded.place("data", section), "these rows")
    help = (
        f"name the questions under [data]: {' or '.join(others)}" if others else "name a file that has the questions",
        'if the model is asked so, write allow = ["W0565"] under [recipe]',
    )
    learned = "the model learns to answer without knowing what is asked"
    return Diagnostic("W0565", f"the prompts of data.{section} {what}", (label,), help, (learned,))


def _texts(source: SampledSource) -> list[str]:
    """The columns of texts that training does not read, and that may hold what is asked."""
    rows = source.rows
    unread = [name for name in rows[0] if name not in source.shape.columns.values()]
    return [name for name in unread if all(isinstance(row.get(name), str) for row in rows) and asks(rows, name)]
