"""`recipec build`: compile a recipe and write its bundle."""

from __future__ import annotations

from pathlib import Path

import click

from recipec.bundle.build import write_bundle
from recipec.bundle.changes import OnConflict
from recipec.cli.build_view import build_document, build_text, was_written
from recipec.cli.bundles import plan_if_any
from recipec.cli.compiling import compiled, tell
from recipec.cli.output import formats, print_json
from recipec.cli.paths import AnyPath, RecipePath


@click.command("build")
@click.argument("recipe", type=RecipePath())
@click.option("-o", "--out", required=True, type=AnyPath(), metavar="OUT", help="The folder of the bundle.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when OUT is not up to date.")
@click.option("--dry-run", is_flag=True, help="Write nothing; say what would be written.")
@click.option("--force", is_flag=True, help="Discard your edits and bring back files that you deleted.")
@click.option(
    "--conflict",
    type=click.Choice([choice.value for choice in OnConflict]),
    default=OnConflict.MARKERS.value,
    show_default=True,
    help="Where you and the new build changed the same lines: mark both, keep yours, or write nothing.",
)
@formats("human", "concise", "json")
def command(recipe: Path, out: Path, check: bool, dry_run: bool, force: bool, conflict: str, format: str) -> int:
    """Compile a recipe and write its bundle; edits of an earlier bundle in OUT are kept."""
    compilation = compiled(recipe, format)
    assert compilation.lock is not None
    plan, before = compilation.plan_json, plan_if_any(out)
    result = write_bundle(
        out,
        compilation.files,
        plan,
        compilation.lock,
        conflict=conflict,
        force=force,
        dry_run=dry_run,
        check=check,
    )
    written = not (check or dry_run) and was_written(result, conflict)
    document = build_document(recipe, out, plan, before, result, written=written)
    if format == "json":
        print_json(document)
    elif document["changes"]:
        click.echo(build_text(document, brief=format == "concise"), nl=False)
    tell(result.diagnostics, format)
    return result.exit_code
