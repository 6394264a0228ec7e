"""What commands are given: paths, of which strange ones are refused here, and bundles in their folders."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, convert
from msgspec.json import decode

from recipec.bundle.folder import strange_records
from recipec.bundle.source_map import Lines, load
from recipec.bundle.state import LAST, LOCK, MOST_BYTES, PLAN, SOURCE_MAP, STATE, read_last, read_lock, read_text
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
            self.fail("the path contains a NUL character", param, ctx)
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
            self.fail(
                f"the name of the recipe file must be printable text: rename `{printable(path.name)}`", param, ctx
            )
        return path


PLAN_VERSION = 1  # planner.document.SCHEMA_VERSION, which takes pydantic to import


_Value = str | float | bool | list[str | float | bool | None] | dict[str, Any] | None


class _Decision(Struct):
    """What commands read of a decision."""

    id: str
    value: _Value
    because: str
    inputs: list[str]
    origin: str
    rule: str
    watch: str
    source: str
    key: str
    where: str
    dissent: str


class _Memory(Struct):
    peak_allocated_bytes: float
    usable_bytes: float


class _Time(Struct):
    seconds: float


class _Cost(Struct):
    usd: float | None


class _Stage(Struct):
    name: str
    decisions: list[_Decision]
    memory: _Memory
    time: _Time
    cost: _Cost


class _Plan(Struct):
    """The part of plan.json that commands read; one without it is damaged."""

    schema_version: int
    stages: list[_Stage]


class Records(Struct, frozen=True):
    """What `.recipec/` tells of a bundle."""

    out: Path
    plan: dict[str, Any]
    lines: Lines
    built: Mapping[str, str]  # path -> text as it was emitted


def is_bundle(folder: Path) -> bool:
    """Whether something was built in `folder`."""
    return (folder / STATE).is_dir()


def plan_if_any(out: Path) -> dict[str, Any] | None:
    """The plan of the last build in `out`; None when there is none that this version can read."""
    try:
        plan: dict[str, Any] = decode(read_regular(out / PLAN, MOST_BYTES))
        return plan if convert(plan, _Plan).schema_version == PLAN_VERSION else None
    except (OSError, ValueError, RecursionError):
        return None


def open_bundle(out: Path) -> Records:
    """The bundle in `out`; ends the command with the reason when there is none."""
    if not out.exists():
        raise Failure(f"there is no folder `{out}`", exit_code=2)
    if not is_bundle(out):
        raise Failure(f"`{out}` is not a bundle", f"create one with `recipec build RECIPE -o {out}`")
    if is_interrupted(out):
        raise Failure(f"the last build of `{out}` was interrupted", "run `recipec build` again to finish it")
    for path, why in strange_records(out):
        raise Failure(f"the records of `{out}` are damaged: {path} {why}", f"delete `{out}/{path}` and build again")
    try:
        last = read_last(out)
    except OSError as error:
        raise Failure(f"`{error.filename}` cannot be read: {error.strerror}", "delete it and build again") from error
    read: dict[str, Any] = {PLAN: plan_if_any(out), SOURCE_MAP: load(out), LAST: last, LOCK: read_lock(out)}
    for path, record in read.items():
        if record is None:
            hint = f"delete `{out}/{path}` and build again" if path == LOCK else "build the bundle again"
            raise Failure(f"`{out}/{path}` is damaged or was written by another version of recipec", hint)
    return Records(out, read[PLAN], read[SOURCE_MAP], read[LAST].texts)


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
