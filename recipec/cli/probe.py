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
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The TOML file to write."
)
@click.option(
    "--minutes", type=click.FloatRange(0, 60), default=1.0, show_default=True, help="About how long it may take."
)
@click.option("--cpu", is_flag=True, help="Measure the CPU, also where there is a GPU.")
@click.option("--force", is_flag=True, help="Replace an output that is there already.")
def command(output: Path, minutes: float, cpu: bool, force: bool) -> None:
    """Measure this machine: its GPUs, or its CPU where there is none.

    The file has the rates, memory and links that a plan assumes otherwise: name it in a recipe, under [hardware], as
    measured = "my-node.toml". Nothing else should run meanwhile. Needs torch and transformers.
    """
    if not sys.platform.startswith("linux"):
        raise Failure("probe needs Linux", "run it on the machine that trains", exit_code=UNUSABLE)
    if output.exists() and not force:
        raise Failure(f"`{output}` exists", "name another file, or replace it with --force", exit_code=UNUSABLE)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        message = f"probe needs the package `{missing[0]}`, which is not installed"
        raise Failure(message, "pip install recipec[verify]", exit_code=UNUSABLE)
    if not output.absolute().parent.is_dir():
        raise Failure(f"no folder `{output.parent}`", "create it first", exit_code=UNUSABLE)
    found = _measured(output.absolute().parent, 60 * minutes, cpu)
    output.write_text(document(found, date.today()), encoding="utf-8")
    click.echo(f'{output}: name it in a recipe, [hardware] measured = "{output.name}"', err=True)


def _measured(folder: Path, seconds: float, cpu: bool) -> dict[str, object]:
    """What the measuring process prints; what it says meanwhile goes to stderr."""
    command = [sys.executable, "-m", "recipec.probe", str(folder), str(seconds), *(["--cpu"] if cpu else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Failure(f"the measurement ended with exit code {done.returncode}", "its last lines are above")
    return json.loads(done.stdout.splitlines()[-1])
