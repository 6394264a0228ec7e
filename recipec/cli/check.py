"""`recipec check`: compile recipes, write nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recipec.cli.compiling import exit_code, tell_all
from recipec.cli.inputs import RecipePath
from recipec.cli.output import formats, print_json
from recipec.compiler import Compilation, compile_recipe
from recipec.diagnostics.machine import SCHEMA_VERSION, document
from recipec.diagnostics.printable import printable

Checked = tuple[Path, Compilation]


@click.command("check")
@click.argument("recipes", metavar="RECIPE...", type=RecipePath(), nargs=-1, required=True)
@formats("human", "concise", "json")
def command(recipes: tuple[Path, ...], format: str) -> int:
    """Check one or more recipes for errors without writing anything.

    With --format json the diagnostics are the result and go to stdout; otherwise they go to stderr.
    """
    checked = [(recipe, compile_recipe(recipe, only_check=True)) for recipe in recipes]
    if format == "json":
        print_json(check_document(checked))
    else:
        _print(checked, format)
    return max(exit_code(compilation.diagnostics) for _, compilation in checked)


def check_document(checked: list[Checked]) -> dict[str, Any]:
    """The JSON model: every diagnostic with its recipe, and the counts for each recipe and all."""
    documents = [(str(recipe), document(compilation.diagnostics)) for recipe, compilation in checked]
    found = [{"recipe": recipe} | diagnostic for recipe, each in documents for diagnostic in each["diagnostics"]]
    return {
        "schema_version": SCHEMA_VERSION,
        "recipes": [{"recipe": recipe} | each["summary"] for recipe, each in documents],
        "diagnostics": found,
        "summary": document([d for _, compilation in checked for d in compilation.diagnostics])["summary"],
    }


def _print(checked: list[Checked], format: str) -> None:
    for recipe, compilation in checked:
        tell_all(compilation, format, recipe)
        if not exit_code(compilation.diagnostics):
            click.echo(f"{printable(str(recipe))}: {_stages(compilation)}")


def _stages(compilation: Compilation) -> str:
    assert compilation.plan is not None
    stages = [f"{stage.stage.label} ({stage.layout.strategy})" for stage in compilation.plan.stages]
    return f"fine, {' then '.join(stages)}{_rows_read(compilation)}"


def _rows_read(compilation: Compilation) -> str:
    """How many rows of each section were read, where there are others: prepare_data.py may find faults in those."""
    data = compilation.facts.data if compilation.facts else {}
    parts = [
        f"the first {facts.sampled:,} of {'' if facts.counted else 'about '}{facts.rows:,} rows of data.{section}"
        for section, facts in data.items()
        if facts.rows is not None and facts.sampled < facts.rows
    ]
    return f"; read: {', '.join(parts)}" if parts else ""
