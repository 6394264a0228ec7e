"""The group of all commands: finds a command's file by its name, and is the one place where errors end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from recipec import __version__
from recipec.cli.output import FINE, FOUND, INTERRUPTED, PIPE_CLOSED, UNUSABLE, color_option

# Command -> what `recipec --help` says of it; the command itself is in the file of that name.
COMMANDS = {
    "init": "Create a recipe, interactively or from flags.",
    "check": "Check recipes for errors without writing anything.",
    "plan": "Show predicted memory, time and cost, and the alternatives.",
    "build": "Write the training code of a recipe; keeps your edits.",
    "why": "Explain a line of generated code or a decision.",
    "explain": "Explain a key, a diagnostic, a rule, a method, or a word of another tool.",
    "verify": "Check generated code: load every file, or run it with a tiny model.",
    "probe": "Measure this machine, so that plans use its real rates.",
    "diff": "Compare two recipes or two bundles.",
    "list": "List models, GPUs, methods, rules, diagnostics and more.",
    "schema": "Print the JSON Schema of recipes, for editor completion.",
}

EPILOG = """\b
Exit codes:
  0  success
  1  error in the recipe, failed check, difference found, or merge conflicts
  2  wrong usage, recipe not found, or output not writable"""


class CommandLine(click.Group):
    """Loads a command when it is used, and turns every way to end into an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"recipec.cli.{cmd_name}").command
        if not any(parameter.name == "color" for parameter in command.params):
            color_option(command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command, or say which one does what the word says in other tools."""
        if args[0] in COMMANDS or args[0].startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from recipec.cli.habits import no_such_command

        raise no_such_command(args[0], tuple(COMMANDS))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list from the table, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        """Run a command line and exit with its code; a traceback is shown to nobody who did not ask for it."""
        _write_what_cannot_be_encoded_as_escapes()
        try:
            code = super().main(args, *rest, **options | {"standalone_mode": False}) or FINE
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except click.Abort:
            code = INTERRUPTED
        except BrokenPipeError:
            code = _without_output(PIPE_CLOSED)
        except Exception as error:
            code = _failed(error)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that closes the pipe is no error, and click must not call it 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _without_output(PIPE_CLOSED)


@click.group("recipec", cls=CommandLine, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="recipec", message="%(prog)s %(version)s")
@color_option
def recipec() -> None:
    """Compile a training recipe (TOML) to readable transformers, TRL and PEFT code."""


def _write_what_cannot_be_encoded_as_escapes() -> None:
    with contextlib.suppress(AttributeError):  # a stream that is not a text file
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _failed(error: Exception) -> int:
    """Say what happened; an OSError that has a number (jinja2's have none) and no file is of our output streams."""
    of_streams = isinstance(error, OSError) and error.errno is not None and error.filename is None
    if of_streams and not os.environ.get("RECIPEC_TRACEBACK"):
        click.echo(f"error: cannot write the output: {error.strerror.lower()}", err=True)
        return _without_output(UNUSABLE)
    if _rows_contradict():
        return FOUND
    click.echo(f"error: this is a bug in recipec: {type(error).__name__}: {error}".strip(), err=True)
    if os.environ.get("RECIPEC_TRACEBACK"):
        import traceback

        click.echo(traceback.format_exc(), err=True)
    else:
        click.echo(
            f"  = help: please report it, with recipec {__version__}, the command and the recipe\n"
            "  = note: RECIPEC_TRACEBACK=1 shows the traceback",
            err=True,
        )
    return UNUSABLE


def _rows_contradict() -> bool:
    """Say so where the rows of recipec contradict each other: what is made from them on import then fails anywhere."""
    from recipec.agreement import contradictions
    from recipec.diagnostics.human import human

    found = list(contradictions())
    click.echo(human(found, color=True) if found else "", nl=False, err=True)
    return bool(found)


def _without_output(code: int) -> int:
    """Let what is still buffered go nowhere, so that Python does not complain at exit; returns `code`."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
