"""Limits that a shared recipe sets, and the warnings that a recipe silences."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from recipec.diagnostics.codes import CODES
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe.exclusive import AUTO
from recipec.recipe.written import Written


def misplaced_policy(written: Written) -> Iterator[Diagnostic]:
    """A policy binds the recipes that extend it; in the recipe itself it would bind nobody."""
    own = written.document.source.shown
    for key in written.get("policy") or {}:
        place = written.key("policy", key)
        if place.file == own:
            label = Label(place, "limits only recipes that extend this file")
            help = "move [policy] to the shared recipe, or use [budget]"
            yield Diagnostic("E0404", f"`{key}` of [policy] in the recipe itself", (label,), (help,))


def broken_policy(written: Written) -> Iterator[Diagnostic]:
    """The limits that the recipe's own keys show to be broken; licences and cost are known only later."""
    yield from _model_not_allowed(written)
    limits = (("max_gpus", ("hardware", "gpus_per_node")), ("max_usd", ("budget", "max_cost_usd")))
    for limit, path in limits:
        most, value = written.get("policy", limit), written.get(*path)
        if most is not None and value is not None and value > most:
            labels = (written.label(path, "over the limit"), written.label(("policy", limit), "the limit"))
            title = f"`{path[-1]} = {value:g}` breaks the policy `{limit} = {most:g}`"
            yield Diagnostic("E0404", title, labels, (f"use {most:g} or less",))


def _model_not_allowed(written: Written) -> Iterator[Diagnostic]:
    patterns, name = written.get("policy", "models"), written.get("model", "name")
    if patterns and name and name != AUTO and not any(fnmatchcase(name, pattern) for pattern in patterns):
        labels = (written.label(("model", "name"), "not allowed"), written.label(("policy", "models"), "the policy"))
        listed = ", ".join(f"`{pattern}`" for pattern in patterns)
        yield Diagnostic("E0404", f"the policy does not allow the model `{name}`", labels, (f"allowed are {listed}",))


def unknown_codes(written: Written) -> Iterator[Diagnostic]:
    """Only warnings that exist can be silenced."""
    for index, code in enumerate(written.get("recipe", "allow") or []):
        if code not in CODES:
            known = ", ".join(f"`{known}`" for known in CODES if known.startswith("W"))
            label = written.label(("recipe", "allow", index), "no such warning")
            yield Diagnostic("E0204", f"`{code}` is not a warning", (label,), (f"the warnings are {known}",))
