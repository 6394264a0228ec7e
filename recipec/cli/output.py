"""How commands speak: results on stdout, all else on stderr, in color where wanted, and an exit code at the end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from recipec.diagnostics.printable import printable, width

# What an exit code says.
FINE = 0
FOUND = 1  # the recipe or what it names is wrong, or a comparison or a check found something
UNUSABLE = 2  # wrong usage, no such recipe, output not writable, or a bug of recipec
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
PIPE_CLOSED = 141  # 128 + SIGPIPE

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
        help="When to color the output.  [env: NO_COLOR, FORCE_COLOR]",
    )
    return option(command)


def strong(text: str) -> str:
    """Headings and the names of decisions."""
    return click.style(text, bold=True)


def dim(text: str) -> str:
    """What may be skipped at first reading."""
    return click.style(text, dim=True)


def tone(text: str, color: str) -> str:
    """A word whose meaning the color repeats, never carries alone."""
    return click.style(text, fg=color, bold=True)


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


def missing_package(command: str, error: ModuleNotFoundError) -> Exception:
    """The message for a package of the extra that is not installed; a module of our own is a bug."""
    if (error.name or "recipec").startswith("recipec"):
        return error
    message = f"{command} needs the package `{error.name}`, which is not installed"
    return Failure(message, "pip install recipec[verify]", exit_code=UNUSABLE)
