"""Import statements of the emitted Python."""

from __future__ import annotations

from collections.abc import Iterable

from recipec.render.call import WIDTH
from recipec.render.traced import Raw


def import_line(module: str, names: Iterable[str]) -> Raw:
    """`from module import names`, sorted as isort does, one name per line where one line is too short."""
    ordered = sorted(names)
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= WIDTH:
        return Raw(line)
    return Raw(f"from {module} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")")
