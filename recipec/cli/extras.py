"""What a command needs beyond the compiler: torch and the libraries, which `recipec[verify]` brings."""

from __future__ import annotations

from recipec.cli.exit_codes import UNUSABLE
from recipec.cli.output import Failure


def missing_package(command: str, error: ModuleNotFoundError) -> Exception:
    """The message for a package of the extra that is not installed; a module of our own is a bug."""
    if (error.name or "recipec").startswith("recipec"):
        return error
    message = f"{command} needs the package `{error.name}`, which is not installed"
    return Failure(message, "pip install recipec[verify]", exit_code=UNUSABLE)
