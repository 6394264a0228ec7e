"""What a recipe hands on as it is: keywords of the trainer and variables of the environment."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import date, time
from keyword import iskeyword
from typing import Any

from recipec.axes import METHODS, Method, methods_of
from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.recipe.document import Written
from recipec.recipe.foreign import KEYS
from recipec.recipe.kept_arguments import (
    BROUGHT_ARGUMENTS,
    DECIDED_ARGUMENTS,
    LAUNCHER_PREFIXES,
    LAUNCHER_VARIABLES,
    OF_VARIANTS,
    UNFIT_ARGUMENTS,
)
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.shown import shown

_TABLES = (("train", "arguments"), *(("train", stage, "arguments") for stage in METHODS))


def refused_arguments(written: Written) -> Iterator[Diagnostic]:
    """A keyword that recipec decides would contradict the decision; one that no trainer reads would say nothing."""
    from recipec.recipe.trainer_arguments import without_effect

    homes = BROUGHT_ARGUMENTS | DECIDED_ARGUMENTS
    for path, name, value in _arguments(written):
        row = _unread_by(written, path, name)
        if row is not None:
            label = Label(written.key(*path), _why_unread(row, name))
            yield Diagnostic("E0407", f"`{name}` is not read by the trainer of {row.name}", (label,), ("remove it",))
        elif _is_keyword_argument(name) and (found := _of_others(written, path, name, homes.get(name, ""))):
            yield found
        elif name in homes and _sets(written, path, name):
            label = Label(written.key(*path), "recipec sets this keyword")
            home = _home(written, path, name) or homes[name]
            help = f"set `{home}` instead" if home else "remove it: the recipe has no key for it"
            yield Diagnostic("E0407", f"`{name}` cannot be given as a trainer argument", (label,), (help,))
        elif name in UNFIT_ARGUMENTS and not without_effect(name, value):
            label = Label(written.key(*path), UNFIT_ARGUMENTS[name])
            yield Diagnostic("E0407", f"`{name}` cannot be given as a trainer argument", (label,), ("remove it",))
        elif _is_keyword_argument(name):
            yield from _unknown(written, path, name) or _of_another_kind(written, path, name, value)


def _of_others(written: Written, path: KeyPath, name: str, home: str) -> Diagnostic | None:
    """A keyword that other trainers take and these do not, unless its key is one of every method."""
    from recipec.recipe.trainer_arguments import configs_with

    ours, theirs = sorted({row.config for row in _rows(written, path)}), configs_with(name)
    of_all = home and not home.startswith("alignment.")
    if not ours or not theirs or of_all or {*ours} & {*theirs}:
        return None
    mine = " or ".join(ours)
    label = Label(written.key(*path), f"an argument of {', '.join(theirs)}")
    return Diagnostic(
        "E0206", f"`{name}` is not an argument of {mine}", (label,), (f"remove it: {mine} does not have it",)
    )


def _sets(written: Written, path: KeyPath, name: str) -> bool:
    """Whether recipec sets the keyword, for a method that the recipe may mean."""
    rows = _rows(written, path)
    return name not in OF_VARIANTS or not rows or any(own.key == "variant" for row in rows for own in row.keys)


def _home(written: Written, path: KeyPath, name: str) -> str:
    """The key for a keyword that each method has for itself, of the first that has one; "" where none has."""
    own = (own for row in _rows(written, path) for own in row.keys if own.argument == name)
    return next((f"alignment.{found.key}" for found in own), "")


def _unknown(written: Written, path: KeyPath, name: str) -> list[Diagnostic]:
    """A keyword that no trainer which may run takes would end the run at its start."""
    from recipec.recipe.trainer_arguments import arguments_of

    configs = sorted({row.config for row in _rows(written, path)})
    known = frozenset[str]().union(*map(arguments_of, configs))
    if not configs or name in known:
        return []
    label = Label(written.key(*path), f"no keyword of {' or '.join(configs)}")
    from difflib import get_close_matches

    near = get_close_matches(name, known - {*DECIDED_ARGUMENTS, *UNFIT_ARGUMENTS}, n=1)
    help = (KEYS[name],) if name in KEYS else (f"did you mean `{near[0]}`?",) if near else ("remove it",)
    return [Diagnostic("E0206", f"`{name}` is not a trainer argument", (label,), help)]


def _of_another_kind(written: Written, path: KeyPath, name: str, value: Any) -> Iterator[Diagnostic]:
    """A value that the keyword's annotation does not allow would end the run, or be taken for another."""
    from recipec.recipe.trainer_arguments import kind_of, without_effect

    words, types = kind_of(name)
    if type(value) not in types and not without_effect(name, value) and not isinstance(value, date | time):
        label = Label(written.value(*path), f"expected {words}")
        yield Diagnostic("E0202", f"`{dotted(path)}` is {shown(value)}", (label,))


def _unread_by(written: Written, path: KeyPath, name: str) -> Method | None:
    """The first of the methods that the keyword could be for, where the trainer of none reads it."""
    rows = _rows(written, path)
    return rows[0] if rows and all(name in row.unread_arguments for row in rows) else None


def _why_unread(row: Method, name: str) -> str:
    if name == "train_sampling_strategy":
        return row.sampling_because
    if name.startswith("dataloader_"):
        return "its trainer reads the prompts in its own process, without a data loader"
    return f"{row.title} {'compares with no reference' if 'ref_' in name else 'has another loss'}"


def _rows(written: Written, path: KeyPath) -> Sequence[Method]:
    """The methods that the keyword of [train.arguments] or [train.STAGE.arguments] could be for."""
    if path[1] in METHODS:
        return [METHODS[str(path[1])]]
    return methods_of(written.get("goal", "task"), written.method)


def unusable_arguments(written: Written) -> Iterator[Diagnostic]:
    """A keyword is one that Python takes; its value a scalar, a list of scalars or a flat table."""
    for path, name, value in _arguments(written):
        if not _is_keyword_argument(name):
            label = Label(written.key(*path), "must be a Python argument name: ASCII, and no Python keyword")
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
            help = "remove it; set OTHER_RANKS=1 and NPROC_PER_NODE when you start the launch script"
            yield Diagnostic("E0407", f"`{name}` cannot be set in a recipe", (label,), (help,))


def _environment(written: Written) -> Iterator[tuple[str, str]]:
    for name, value in (written.get("launch", "env") or {}).items():
        if isinstance(value, str):
            yield name, value
