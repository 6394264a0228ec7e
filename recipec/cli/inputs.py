"""What commands are given: paths, of which strange ones are refused here, and bundles in their folders."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from recipec.bundle.source_map import load
from recipec.bundle.state import MOST_BYTES, PLAN, STATE, read_last, read_text
from recipec.bundle.write import is_interrupted
from recipec.cli.output import Failure
from recipec.files import read_regular


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


PLAN_VERSION = 1  # planner.document.SCHEMA_VERSION, which takes pydantic to import


class Records(Struct, frozen=True):
    """What `.recipec/` tells of a bundle."""

    out: Path
    plan: dict[str, Any]
    lines: Mapping[str, Mapping[int, tuple[str, ...]]]  # path -> line of the last build -> decision ids
    built: Mapping[str, str]  # path -> text as it was emitted


def is_bundle(folder: Path) -> bool:
    """Whether something was built in `folder`."""
    return (folder / STATE).is_dir()


def plan_if_any(out: Path) -> dict[str, Any] | None:
    """The plan of the last build in `out`; None when there is none that this version can read."""
    try:
        plan = json.loads(read_regular(out / PLAN, MOST_BYTES))
    except (OSError, ValueError):
        return None
    return plan if isinstance(plan, dict) and plan.get("schema_version") == PLAN_VERSION else None


def open_bundle(out: Path) -> Records:
    """The bundle in `out`; ends the command with the reason when there is none."""
    if not out.exists():
        raise Failure(f"there is no folder `{out}`", exit_code=2)
    if not is_bundle(out):
        raise Failure(f"`{out}` is not a bundle: recipec built nothing there", "recipec build RECIPE -o OUT makes one")
    if is_interrupted(out):
        raise Failure(f"a build of `{out}` was interrupted", "build it again; that finishes what was begun")
    plan, source_map, last = plan_if_any(out), load(out), read_last(out)
    if plan is None or source_map is None or last is None:
        raise Failure(f"`{out}/{STATE}` is damaged or of another version of recipec", "build it again")
    lines = {path: {int(line): tuple(ids) for line, ids in each.items()} for path, each in source_map["files"].items()}
    return Records(out, plan, lines, last.texts)


def text_on_disk(path: Path) -> str | None:
    """The text of a file of a bundle, None when it is not there; ends the command when it cannot be read."""
    try:
        return read_text(path)
    except OSError as error:
        raise Failure(f"`{path}` cannot be read: {error.strerror}", exit_code=2) from error


def files_on_disk(bundle: Records) -> dict[str, str]:
    """Path -> text as it is now, of the emitted files that are still there."""
    texts = {path: text_on_disk(bundle.out / path) for path in bundle.built}
    return {path: text for path, text in texts.items() if text is not None}
