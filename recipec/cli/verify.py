"""`recipec verify`: check a bundle by looking at it, or by running it small."""

from __future__ import annotations

from pathlib import Path

import click

from recipec.cli.edits import edits_in, edits_text
from recipec.cli.inputs import AnyPath, open_bundle
from recipec.cli.output import FINE, FOUND, formats, missing_package, print_json


@click.command("verify")
@click.argument("out", type=AnyPath())
@click.option(
    "--level",
    type=click.Choice(["static", "run", "learn"]),
    default="static",
    show_default=True,
    help="static: load every file as its framework does, which imports train.py; run: prepare test rows and execute "
    "the bundle with a tiny model; learn: also check that it learns, and that it resumes after being killed.",
)
@click.option(
    "--ranks", type=click.IntRange(1, 8), help="Number of processes. Default: what the plan allows on this machine."
)
@formats("human", "json")
def command(out: Path, level: str, ranks: int | None, format: str) -> int:
    """Check a bundle. Levels run and learn execute its unmodified code, on the CPU if there is no GPU.

    Every level executes code of the bundle with your rights: static imports train.py and reads the launch script with
    bash. Verify only bundles that you would run.

    Set DATA_ROOT to the folder that the paths of the recipe start from, usually the recipe's own. run and learn then
    take rows of your data, and count all of them against the plan; without it they look in the current folder, and
    train on synthetic rows. They never write there.
    """
    open_bundle(out)
    try:
        from recipec.verify import verify_bundle
        from recipec.verify.report import line_of, summary

        told = (lambda check: click.echo(line_of(check))) if format == "human" else (lambda check: None)
        report = verify_bundle(out.absolute(), level, ranks, told)  # its processes run in other folders
    except ModuleNotFoundError as error:
        raise missing_package("verify", error) from error
    edits = [] if report.ok else edits_in(out)
    if format == "json":
        print_json(report.document() | {"edits": edits})
    else:
        click.echo("\n" + summary(report.document()), nl=False)
        click.echo("".join(f"{line}\n" for line in ["", *edits_text(edits)] if edits), nl=False)
    return FINE if report.ok else FOUND
