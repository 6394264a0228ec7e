"""`recipec probe`: measure this machine, so that plans need not assume what it does."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import click

from recipec.cli.output import UNUSABLE, Failure
from recipec.probe.document import document

NEEDED = ("torch", "transformers")


@click.command("probe")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="TOML file to write."
)
@click.option("--minutes", type=click.FloatRange(0, 60), default=1.0, show_default=True, help="Approximate duration.")
@click.option("--cpu", is_flag=True, help="Measure the CPU, even if there is a GPU.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(output: Path, minutes: float, cpu: bool, force: bool) -> None:
    """Measure this machine: its GPUs, or its CPU if it has none.

    The file has the rates, memory and links that a plan assumes otherwise: name it in a recipe, under [hardware], as
    measured = "my-node.toml". Nothing else should run meanwhile. Needs torch and transformers.
    """
    if not sys.platform.startswith("linux"):
        raise Failure("probe needs Linux", "run it on the training machine", exit_code=UNUSABLE)
    try:
        exists = output.exists()
    except OSError as error:  # a name that no file can have
        reason = f"cannot write `{output}`: {str(error.strerror).lower()}"
        raise Failure(reason, "choose another name", exit_code=UNUSABLE) from error
    if exists and not force:
        raise Failure(f"`{output}` exists", "choose another file, or pass --force to overwrite it", exit_code=UNUSABLE)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        message = f"probe needs the package `{missing[0]}`, which is not installed"
        raise Failure(message, "install it with `pip install 'recipec[verify]'`", exit_code=UNUSABLE)
    if not output.absolute().parent.is_dir():
        raise Failure(f"no folder `{output.parent}`", "create it first", exit_code=UNUSABLE)
    found = _measured(output.absolute().parent, 60 * minutes, cpu)
    output.write_text(document(found, date.today()), encoding="utf-8")
    click.echo(f'Wrote {output}. To use it, set `measured = "{output.name}"` in [hardware] of a recipe.', err=True)


def _measured(folder: Path, seconds: float, cpu: bool) -> dict[str, object]:
    """What the measuring process prints; what it says meanwhile goes to stderr."""
    command = [sys.executable, "-m", "recipec.probe", str(folder), str(seconds), *(["--cpu"] if cpu else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure(f"the measurement ended with exit code {done.returncode}", "its last lines are above")
    return json.loads(done.stdout.splitlines()[-1])
