"""`recipec plan`: what was chosen, what it takes, and what was not taken."""

from __future__ import annotations

from pathlib import Path

import click

from recipec.cli.compiling import compiled
from recipec.cli.output import formats
from recipec.cli.paths import RecipePath
from recipec.cli.plan_view import plan_text


@click.command("plan")
@click.argument("recipe", type=RecipePath())
@formats("human", "json")
def command(recipe: Path, format: str) -> None:
    """Show the plan: the layout of each stage, memory, time, cost and what was rejected.

    With --format json it is the file .recipec/plan.json of the bundle, byte for byte.
    """
    plan_json = compiled(recipe, format, only_plan=True).plan_json
    if format == "json":
        click.echo(plan_json, nl=False)
    else:
        import json

        click.echo(plan_text(json.loads(plan_json)), nl=False)
