"""A file that other recipes extend, given as if it were a recipe."""

from __future__ import annotations

from collections.abc import Sequence

from recipec.diagnostics.model import Diagnostic
from recipec.recipe.written import Written

_MISSING, _MISPLACED = "missing key ", " of [policy] in the recipe itself"


def as_preset(written: Written, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """One finding (E0201) in place of those that only say that a preset is none; others stay.

    A preset is told by a [policy], which binds only the recipes that extend it, without a name.
    """
    source = written.document.source
    limits = [finding for finding in found if finding.title.endswith(_MISPLACED)]
    if not limits or written.has("recipe", "name") or written.has("recipe", "extends"):
        return list(found)
    missing = [finding for finding in found if finding.title.startswith(_MISSING)]
    needed = ", ".join(finding.title.removeprefix(_MISSING) for finding in missing)
    title = f"`{source.shown}` looks like a preset that recipes extend: it has a [policy] and no name"
    extending = f'a recipe has `extends = "{source.path.name}"` in [recipe], and adds {needed}'
    kept = [finding for finding in found if finding not in (*missing, *limits)]
    help = (extending, "check that recipe: it is checked with this one")
    return [Diagnostic("E0201", title, limits[0].labels, help), *kept]
