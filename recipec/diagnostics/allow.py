"""Warnings that a recipe silences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recipec.diagnostics.model import Diagnostic, Label, Place


def silence(diagnostics: Sequence[Diagnostic], allowed: Mapping[str, Place], *, complete: bool) -> list[Diagnostic]:
    """Drop the warnings whose code is allowed, and warn (W0502) about each allowed code that silenced nothing.

    `complete` says that everything that warns has been looked at; else a code may only not have been raised yet, and
    there is no W0502.
    """
    raised = {diagnostic.code for diagnostic in diagnostics}
    kept = [diagnostic for diagnostic in diagnostics if diagnostic.code not in allowed]
    if "W0502" in allowed or not complete:
        return kept
    return kept + [_unused(code, place) for code, place in allowed.items() if code not in raised]


def _unused(code: str, place: Place) -> Diagnostic:
    label = Label(place, "this recipe does not raise it")
    return Diagnostic("W0502", f"`{code}` is allowed but was not raised", (label,), (f"remove `{code}` from `allow`",))
