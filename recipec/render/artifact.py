"""What a back end hands over, and what comes back as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Artifact(Struct, frozen=True):
    """One file to emit: a template with its names, or a mapping that is dumped as YAML or JSON by its suffix."""

    path: str  # posix, relative to the bundle
    decided_by: tuple[str, ...] = ()  # decisions that put the whole file here
    template: str | None = None  # relative to the templates folder
    names: Mapping[str, Any] = field(default_factory=dict)  # exactly the names that the template reads
    mapping: Mapping[str, Any] | None = None
    executable: bool = False
    copy_of: str = ""  # the user's file that it is a copy of, as the recipe names it


class Rendered(Struct, frozen=True):
    """The text of one emitted file and the decisions behind each of its lines, the nearest first."""

    path: str
    text: str
    lines: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # 1-based
    executable: bool = False
    copy_of: str = ""
