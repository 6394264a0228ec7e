"""`recipec init`: write a commented recipe, from flags, questions or proposals."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from recipec.cli.exit_codes import UNUSABLE
from recipec.cli.init_answers import TASKS, Answers, ask, missing_flags, propose_all
from recipec.cli.init_text import recipe_text
from recipec.cli.output import Failure
from recipec.cli.paths import AnyPath

RECIPE, SCHEMA = "recipe.toml", "recipe.schema.json"


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=AnyPath())
@click.option("--data", metavar="FILE", help="Training rows: a path or glob, which is looked at.")
@click.option("--task", type=click.Choice(list(TASKS)), help="The kind of training.")
@click.option("--gpu", help="A GPU of `recipec list gpus`, or cpu.")
@click.option("--gpus", help="GPUs in the machine.")
@click.option("--model", help="A model of `recipec list models`, a hub id, ./folder, or auto.")
@click.option("--name", help="The name of the recipe.")
@click.option("--yes", is_flag=True, help="Take the proposals for what is not given.")
def command(folder: Path, yes: bool, **flags: str | None) -> int:
    """Write DIR/recipe.toml with comments, and the schema that editors read beside it; never overwrites."""
    target = folder / RECIPE
    if os.path.lexists(target):
        raise Failure(f"`{target}` exists and is not overwritten", "name another folder", exit_code=UNUSABLE)
    answers = _answers(folder, {name: value for name, value in flags.items() if value is not None}, yes)
    _write(folder, recipe_text(answers, folder))
    return _end(target)


def _answers(folder: Path, given: dict[str, str], yes: bool) -> Answers:
    """Everything that a recipe needs; without a terminal nothing is asked."""
    if yes:
        return propose_all(folder, given)
    if missing := missing_flags(given):
        if not sys.stdin.isatty():
            raise Failure(f"missing {', '.join(missing)}", "give these, or --yes to take proposals", exit_code=UNUSABLE)
        return ask(folder, given)
    return propose_all(folder, given)


def _write(folder: Path, text: str) -> None:
    from recipec.cli.schema import schema_bytes

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / RECIPE).open("xb") as file:
            file.write(text.encode())
        if not os.path.lexists(folder / SCHEMA):
            (folder / SCHEMA).write_bytes(schema_bytes())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failure(f"cannot write `{folder / RECIPE}`: {reason}", exit_code=UNUSABLE) from error


def _end(target: Path) -> int:
    """Say what the compiler thinks of the new recipe, and where to go from here."""
    from recipec.cli.compiling import exit_code, tell
    from recipec.compiler import compile_recipe
    from recipec.diagnostics.printable import printable

    compilation = compile_recipe(target, only_plan=True)
    tell(compilation.diagnostics, "human")
    recipe, out = (shlex.quote(printable(str(path))) for path in (target, target.parent / "out"))
    chosen = compilation.plan.selection if compilation.plan else None
    click.echo(f"Wrote {recipe}." + (f" Its model is {chosen.model}: {chosen.because}." if chosen else ""))
    click.echo(f"\nNext:\n  recipec plan {recipe}\n  recipec build {recipe} -o {out}")
    return exit_code(compilation.diagnostics)
