"""The verbatim trainer keywords of `arguments`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from keyword import iskeyword
from typing import Any

from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe.decided_arguments import DECIDED_ARGUMENTS
from recipec.recipe.exclusive import STAGES
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.written import Written

_TABLES = (("train", "arguments"), *(("train", stage, "arguments") for stage in STAGES))


def decided_arguments(written: Written) -> Iterator[Diagnostic]:
    """A keyword that recipec decides would contradict the decision."""
    for path, name, _ in _arguments(written):
        if name in DECIDED_ARGUMENTS:
            label = Label(written.key(*path), "recipec sets this keyword")
            home = DECIDED_ARGUMENTS[name]
            help = f"set `{home}` instead" if home else "remove it: the recipe has no key for it"
            yield Diagnostic("E0407", f"`{name}` cannot be given as a trainer argument", (label,), (help,))


def unusable_arguments(written: Written) -> Iterator[Diagnostic]:
    """A keyword is one that Python takes; its value a scalar, a list of scalars or a flat table."""
    for path, name, value in _arguments(written):
        if not _is_keyword_argument(name):
            label = Label(written.key(*path), "must be an ASCII name, and none that Python keeps for itself")
            yield Diagnostic("E0206", f"`{name}` is not a trainer argument", (label,))
        else:
            yield from _unusable(written, path, value, depth=0)


def _is_keyword_argument(name: str) -> bool:
    """Whether `Config(name=...)` is Python; names outside ASCII are out, Python reads some of them as other names."""
    return name.isascii() and name.isidentifier() and not iskeyword(name) and name not in ("self", "__debug__")


def _unusable(written: Written, path: KeyPath, value: Any, depth: int) -> Iterator[Diagnostic]:
    if isinstance(value, dict | list):
        if depth > 0:
            message = "must be text, a number, true or false"
            yield Diagnostic("E0202", f"`{dotted(path)}` is nested too deeply", (written.label(path, message),))
            return
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unusable(written, (*path, key), entry, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Diagnostic("E0205", f"`{dotted(path)}` is {value}", (written.label(path, "must be a finite number"),))
    elif not isinstance(value, str | int | float):
        message = "expected text, a number, true or false"
        yield Diagnostic("E0202", f"`{dotted(path)}` is a date or time", (written.label(path, message),))


def _arguments(written: Written) -> Iterator[tuple[KeyPath, str, Any]]:
    for table in _TABLES:
        for name, value in (written.get(*table) or {}).items():
            yield (*table, name), name, value
