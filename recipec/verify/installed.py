"""The packages of this Python against a bundle's pins: a run proves something about these versions only."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from recipec.verify.static.python import pins

_OPTIONAL = ("tensorboard", "wandb", "mlflow")  # trackers: a run without them is a substitution


def installed_problems(requirements: Path) -> tuple[list[str], str]:
    """Packages that are missing here or have another version, and what was compared."""
    wanted = {name: pin for name, pin in pins(requirements).items() if name not in _OPTIONAL}
    found = {name: _version(name) for name in wanted}
    wrong = [
        f"{name} {found[name] or 'is not installed'}, not {pin}" for name, pin in wanted.items() if found[name] != pin
    ]
    return wrong, ", ".join(f"{name} {pin}" for name, pin in wanted.items())


def _version(name: str) -> str | None:
    """The installed version without a local part such as +cpu."""
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return None
