"""`recipec plan`: what was chosen, what it takes, and what was not taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recipec.cli.compiling import compiled
from recipec.cli.extras import missing_package
from recipec.cli.output import formats
from recipec.cli.paths import RecipePath
from recipec.cli.plan_view import plan_text
from recipec.simulate.view import exact_text

if TYPE_CHECKING:
    from recipec.compiler import Compilation


@click.command("plan")
@click.argument("recipe", type=RecipePath())
@click.option(
    "--exact",
    is_flag=True,
    help="Simulate a step of each stage on fake tensors, beside the formula; needs recipec[verify].",
)
@formats("human", "json")
def command(recipe: Path, exact: bool, format: str) -> None:
    """Show the plan: the layout of each stage, memory, time, cost and what was rejected.

    With --format json it is the file .recipec/plan.json of the bundle, byte for byte.
    """
    compilation = compiled(recipe, format, only_plan=True)
    if exact:
        document = _simulated(compilation)
        click.echo(json.dumps(document, indent=2) + "\n" if format == "json" else exact_text(document), nl=False)
    elif format == "json":
        click.echo(compilation.plan_json, nl=False)
    else:
        click.echo(plan_text(json.loads(compilation.plan_json)), nl=False)


def _simulated(compilation: Compilation) -> dict[str, Any]:
    assert compilation.plan is not None and compilation.facts is not None
    from recipec.simulate.plan import plan_exact

    try:
        return plan_exact(compilation.plan, compilation.facts.model.architecture)
    except ModuleNotFoundError as error:
        raise missing_package("plan --exact", error) from error
