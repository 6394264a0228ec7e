"""Rows that lack what their format needs, and that preparation leaves out where the recipe says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from recipec.facts.fact import stated
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision

REFUSE = "refuse"  # the value of data.incomplete where a recipe has none
MOST_LISTED = 5  # things that rows lack


def incomplete_fact(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> Decision:
    """What becomes of incomplete rows; its reason counts those of the sample, by what they lack."""
    absent = "rows that lack what their format needs are refused"
    found = stated(loaded, "incomplete", loaded.recipe.data.incomplete or REFUSE, "data", "incomplete", absent=absent)
    lacks = Counter(lack for source in sources for lack in source.incomplete)
    if not lacks:
        return found
    rows = sum(len(source.looked_at) for source in sources)
    listed = ", ".join(f"{lack} in {count:,}" for lack, count in lacks.most_common(MOST_LISTED))
    more = ", …" * (len(lacks) > MOST_LISTED)
    return replace(found, because=f"{found.because}; {lacks.total():,} of {rows:,} sampled rows: {listed}{more}")
