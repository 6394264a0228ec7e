"""Paths on the command line: strange ones are refused here, so that nothing behind meets them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import click


class AnyPath(click.Path):
    """A path that need not exist; an empty one (an unset shell variable) is refused."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        text = str(value)
        if not text:
            self.fail("the path is empty", param, ctx)
        try:
            os.lstat(text)
        except ValueError:
            self.fail("the path holds a NUL character", param, ctx)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                self.fail("the path is too long", param, ctx)
        return Path(text)


class RecipePath(AnyPath):
    """A recipe, whose name is written into the bundle and so must be printable text."""

    name = "recipe"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from recipec.diagnostics.printable import printable

        path = super().convert(value, param, ctx)
        if printable(path.name) != path.name or not path.name.isprintable():
            self.fail(f"rename the recipe: `{printable(path.name)}` is not a printable name", param, ctx)
        return path
