"""What the rows say of each other: every contradiction between two of them, or within one, with the names of both.

The compiler's first pass refuses to go on with any, so that no rule answers for a row with another row's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.axes.adaptations import ADAPTATIONS
from recipec.axes.agreement.methods import of_methods
from recipec.axes.agreement.names import of_names
from recipec.axes.agreement.tables import of_tables
from recipec.axes.attention import ATTENTIONS
from recipec.axes.bases import BASES
from recipec.axes.kinds import KINDS
from recipec.axes.lora_variants import LORA_VARIANTS
from recipec.axes.methods import METHODS
from recipec.axes.models import NAMED_MODELS
from recipec.axes.row_formats import ROW_FORMATS
from recipec.axes.sections import SECTIONS
from recipec.axes.strategies import ENGINES, STRATEGIES

_TABLES: dict[str, Mapping[str, Any]] = {
    "method": METHODS,
    "adaptation": ADAPTATIONS,
    "base": BASES,
    "variant": LORA_VARIANTS,
    "strategy": STRATEGIES,
    "engine": ENGINES,
    "format": ROW_FORMATS,
    "kind": KINDS,
    "section": SECTIONS,
    "model": NAMED_MODELS,
    "attention": ATTENTIONS,
}


def disagreements() -> Iterator[str]:
    """Sentences, each with the names of what contradicts each other; none where all agree."""
    for axis, table in _TABLES.items():
        yield from of_names(axis, table)
    yield from of_methods()
    yield from of_tables()
