"""How commands speak: results on stdout, all else on stderr, JSON as UTF-8 whatever the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from recipec.cli.color import tone
from recipec.diagnostics.printable import printable, width


class Failure(click.ClickException):
    """Something that a command cannot do with what it was given; not about a recipe's text, so it has no code."""

    def __init__(self, message: str, *help: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.help, self.exit_code = help, exit_code

    def show(self, file: Any = None) -> None:
        """Print the message and how to mend it to stderr."""
        click.echo(f"{tone('error', 'red')}: {printable(self.message)}", err=True)
        for line in self.help:
            click.echo(f"  = help: {printable(line)}", err=True)


def formats(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --format with `names`, the first as default, and its short form --json; the command gets `format`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--format", type=click.Choice(names), default=names[0], show_default=True, help="How to print.")
        @click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
        @wraps(command)
        def run(*args: Any, format: str, as_json: bool, **options: Any) -> Any:
            return command(*args, format="json" if as_json else format, **options)

        return run

    return decorate


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print a JSON document to stdout; a lone surrogate of a strange file name becomes its JSON escape."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    click.echo(text.encode("utf-8", "backslashreplace"), nl=False)


def print_table(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> None:
    """Print rows under their first one as columns, the columns in `numbers` aligned to the right."""
    click.echo("\n".join(table(rows, numbers)))


def table(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> list[str]:
    """The lines of a table with two blanks between its columns."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(width(cell) for cell in column) for column in zip(*shown, strict=True)]
    return ["  ".join(_cells(row, widths, numbers)).rstrip() for row in shown]


def _cells(row: Sequence[str], widths: Sequence[int], numbers: Sequence[int]) -> list[str]:
    blanks = [" " * (widths[index] - width(cell)) for index, cell in enumerate(row)]
    pairs = enumerate(zip(row, blanks, strict=True))
    return [blank + cell if index in numbers else cell + blank for index, (cell, blank) in pairs]


def stdout_is_unicode() -> bool:
    """Whether stdout can show more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").startswith("utf")
