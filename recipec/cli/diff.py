"""`recipec diff`: what differs between two recipes or two bundles."""

from __future__ import annotations

import json
from pathlib import Path

import click

from recipec.cli.bundles import files_on_disk, open_bundle
from recipec.cli.diff_view import Side, diff_document, diff_text
from recipec.cli.exit_codes import FINE, FOUND
from recipec.cli.output import formats, print_json
from recipec.cli.paths import AnyPath, RecipePath


@click.command("diff")
@click.argument("a", type=AnyPath())
@click.argument("b", type=AnyPath())
@formats("human", "json")
def command(a: Path, b: Path, format: str) -> int:
    """Compare two recipes or two bundles: decisions, memory, time, cost, then the text of the files.

    The exit code is 1 when anything differs. The files of a bundle are compared as they are now, with your edits.
    """
    document = diff_document(_side(a, format), _side(b, format))
    if format == "json":
        print_json(document)
    else:
        click.echo(diff_text(document), nl=False)
    return FINE if document["identical"] else FOUND


def _side(path: Path, format: str) -> Side:
    if path.is_dir():
        bundle = open_bundle(path)
        return Side(str(path), bundle.plan, files_on_disk(bundle))
    from recipec.cli.compiling import compiled  # bundles are compared without the compiler

    compilation = compiled(RecipePath().convert(path, None, None), format)
    return Side(str(path), json.loads(compilation.plan_json), {file.path: file.text for file in compilation.files})
