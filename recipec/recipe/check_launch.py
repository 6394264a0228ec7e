"""The environment of the run: no secrets, and nothing that the launcher sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.recipe.decided_arguments import LAUNCHER_PREFIXES, LAUNCHER_VARIABLES
from recipec.recipe.written import Written

_SECRET_NAME = re.compile(r"(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SECRET_VALUE = re.compile(r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,})\b")


def secrets(written: Written) -> Iterator[Diagnostic]:
    """Tokens are read from the environment of whoever runs; a recipe is shared."""
    for name, value in _environment(written):
        if _SECRET_NAME.search(name.upper()) or _SECRET_VALUE.search(value):
            label = Label(_veiled(written, name), "would be copied into every bundle")
            help = (f"remove it and set {name} in the environment before the run", "if it was shared, revoke it")
            yield Diagnostic("E0406", f"`{name}` is a secret", (label,), help)


def _veiled(written: Written, name: str) -> Place:
    """Return the place of a variable's name, its line without the value: diagnostics end up in logs."""
    key, value = written.key("launch", "env", name), written.value("launch", "env", name)
    lines = key.text.split("\n")
    lines[value.span.line - 1] = lines[value.span.line - 1][: value.span.col - 1] + '"…"'
    return Place(key.file, key.span, "\n".join(lines))


def reserved_variables(written: Written) -> Iterator[Diagnostic]:
    """The launcher gives each process its own value of these."""
    for name, _ in _environment(written):
        if name in LAUNCHER_VARIABLES or name.startswith(LAUNCHER_PREFIXES):
            label = Label(written.key("launch", "env", name), "set for each process by the launcher")
            help = "remove it; the launch script honours NPROC_PER_NODE and NNODES from the environment"
            yield Diagnostic("E0407", f"`{name}` cannot be set in a recipe", (label,), (help,))


def _environment(written: Written) -> Iterator[tuple[str, str]]:
    for name, value in (written.get("launch", "env") or {}).items():
        if isinstance(value, str):
            yield name, value
