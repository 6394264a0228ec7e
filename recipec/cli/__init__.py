"""The command line: one short file per command, imported when the command is used."""

from __future__ import annotations


def main() -> None:
    """Run the command line on `sys.argv` and exit: the console script `recipec`."""
    from recipec.cli.group import recipec

    recipec.main(prog_name="recipec")
