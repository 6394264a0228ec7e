"""The files behind rows, found by name."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def file_of(package: str, name: str) -> ModuleType | None:
    """The module of a package that is named after a row; None where there is none."""
    module = f"{package}.{name.replace('-', '_')}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # it is there, and what it imports is not
            raise
        return None
