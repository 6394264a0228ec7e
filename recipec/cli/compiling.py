"""Compile for a command: diagnostics to stderr, and an end with the right exit code when there are errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from recipec.cli.output import FINE, FOUND, UNUSABLE
from recipec.compiler import Compilation, compile_recipe
from recipec.diagnostics.model import Diagnostic, Severity
from recipec.diagnostics.printable import printable

_NO_RECIPE = "E0001"
_COMMAND = re.compile(r"`(python3|jq|iconv|gzip|bzip2|xz|zstd) -")
HUMAN = "human"  # the format that people read


def compiled(recipe: Path, format: str, *, only_plan: bool = False, out: Path | None = None) -> Compilation:
    """The compilation of a recipe without errors; otherwise the command ends here."""
    compilation = compile_recipe(recipe, only_plan=only_plan, out=out)
    tell_all(compilation, format, recipe)
    if code := exit_code(compilation.diagnostics):
        raise click.exceptions.Exit(code)
    return compilation


def exit_code(diagnostics: Iterable[Diagnostic]) -> int:
    """The exit code of a compilation: warnings are fine, a recipe that is not there is a wrong command line."""
    errors = {diagnostic.code for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR}
    if _NO_RECIPE in errors:
        return UNUSABLE
    return FOUND if errors else FINE


def tell_all(compilation: Compilation, format: str, recipe: Path) -> None:
    """Print a recipe's diagnostics to stderr, where their commands run, and whether later checks have not run yet."""
    tell(compilation.diagnostics, format)
    if format == HUMAN and recipe.parent.resolve() != Path.cwd() and any(map(_has_command, compilation.diagnostics)):
        where = printable(str(recipe.parent))
        click.echo(f"The commands name files as the recipe does: run them in {where}, the recipe's folder.", err=True)
    if format == HUMAN and not compilation.whole and exit_code(compilation.diagnostics) == FOUND:
        click.echo("Later checks have not run: correct these first, since more may follow.", err=True)


def _has_command(diagnostic: Diagnostic) -> bool:
    """Whether a help has a command for a shell that reads a file of the recipe."""
    return any(_COMMAND.search(line) for line in diagnostic.help)


def tell(diagnostics: Sequence[Diagnostic], format: str) -> None:
    """Print diagnostics to stderr in the format that the user asked for."""
    if diagnostics:
        click.echo(_rendered(diagnostics, format), nl=False, err=True)


def _rendered(diagnostics: Sequence[Diagnostic], format: str) -> str:
    if format == "json":
        from recipec.diagnostics.machine import machine

        return machine(diagnostics)
    if format == "concise":
        from recipec.diagnostics.concise import concise

        return concise(diagnostics)
    from recipec.diagnostics.human import human

    return human(diagnostics, color=True)  # click.echo takes the colors out where they are not wanted
