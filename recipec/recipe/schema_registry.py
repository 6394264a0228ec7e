"""The section [registry]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from recipec.recipe.fields import Line, Section, key, one_of

STATUSES = {
    "experimental": "an experiment",
    "staging": "a candidate under test",
    "production": "in use",
    "archived": "kept, but no longer in use",
}
Status = one_of(STATUSES)


class Registry(Section):
    """The draft of a registry entry (`registry/entry.json`)."""

    status: Status | None = key(
        "Status", "Status of the result in the registry entry.", "staging", default="experimental"
    )
    tags: Annotated[list[Line], Field(max_length=64)] | None = key(
        "Tags", "Tags by which the registry entry can be found.", ["support"], absent="no tags"
    )
