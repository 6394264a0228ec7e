"""Whether output is coloured: --color, then NO_COLOR, then FORCE_COLOR, then whether it goes to a terminal."""

from __future__ import annotations

import os
from typing import Any

import click

_CHOICES: dict[str, bool | None] = {"auto": None, "always": True, "never": False}


def _settle(context: click.Context, _: click.Parameter, asked: str | None) -> None:
    """Set `context.color`, which `click.echo` obeys; None lets it look at the stream."""
    if asked is None and context.parent is not None:
        return  # the group has settled it
    context.color = _from_environment() if asked in (None, "auto") else _CHOICES[asked]


def _from_environment() -> bool | None:
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def color_option(command: Any) -> Any:
    """Add --color to a command or group."""
    option = click.option(
        "--color",
        type=click.Choice(list(_CHOICES)),
        expose_value=False,
        is_eager=True,
        callback=_settle,
        help="When to colour the output.  [env: NO_COLOR, FORCE_COLOR]",
    )
    return option(command)


def strong(text: str) -> str:
    """Headings and the names of decisions."""
    return click.style(text, bold=True)


def dim(text: str) -> str:
    """What may be skipped at first reading."""
    return click.style(text, dim=True)


def tone(text: str, colour: str) -> str:
    """A word whose meaning the colour repeats, never carries alone."""
    return click.style(text, fg=colour, bold=True)
