"""`recipec schema`: the language for editors."""

from __future__ import annotations

from pathlib import Path

import click

import recipec


def schema_bytes() -> bytes:
    """The committed schema file; read as it is because making it anew takes pydantic."""
    return (Path(recipec.__file__).parent / "recipe" / "recipe.schema.json").read_bytes()


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of recipes, for completion and checks in editors.

    Write it beside a recipe and begin the recipe with `#:schema recipe.schema.json`: editors then complete keys.
    """
    click.echo(schema_bytes(), nl=False)
