"""`.recipec/source_map.json`: from a line of the bundle, edited or not, to the decisions behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode

from recipec.bundle.lines import lines_of, stretches
from recipec.bundle.state import LAST, MOST_BYTES, SOURCE_MAP, dump_json, read_text
from recipec.files import read_regular
from recipec.render.artifact import Rendered

SCHEMA_VERSION = 1

Lines = Mapping[str, Mapping[int, tuple[str, ...]]]  # path -> line of the last build -> decision ids


class _SourceMap(Struct, frozen=True):
    schema_version: int
    files: Lines
    copies: Mapping[str, str] = {}  # path -> the user's file that it is a copy of


class Origin(Struct, frozen=True):
    """Where a line comes from: the decisions, nearest first, and the line as the last build wrote it."""

    text: str  # the line as it is now
    ids: tuple[str, ...] = ()
    line: int | None = None  # in the last build; None when the user added the line
    edited: bool = False  # the user changed this line


def source_map_text(files: Collection[Rendered]) -> str:
    """The map of a build, with lines as keys."""
    maps = {file.path: {str(line): list(ids) for line, ids in sorted(file.lines.items())} for file in files}
    copies = {file.path: file.copy_of for file in files if file.copy_of}
    return dump_json({"schema_version": SCHEMA_VERSION, "files": maps} | ({"copies": copies} if copies else {}))


def load(out: Path) -> Lines | None:
    """The source map of the bundle in `out`, None when there is none that we can read."""
    found = _load(out)
    return found and found.files


def copied_from(out: Path, path: str) -> str:
    """The user's file that a file of the bundle is a copy of; "" where it is none."""
    found = _load(out)
    return found.copies.get(path, "") if found else ""


def _load(out: Path) -> _SourceMap | None:
    try:
        found = decode(read_regular(out / SOURCE_MAP, MOST_BYTES), type=_SourceMap)
    except (OSError, ValueError, RecursionError):
        return None
    return found if found.schema_version == SCHEMA_VERSION else None


def ids_at(out: Path, path: str, line: int) -> Origin | None:
    """Who decided line `line` (from 1) of `path` in `out`; None when no such line or file was built."""
    source_map, now, built = load(out), read_text(out / path), read_text(out / LAST / path)
    if source_map is None or now is None or built is None or not 1 <= line <= len(lines_of(now)):
        return None
    text = lines_of(now)[line - 1].rstrip("\n")
    before, edited = _line_before(lines_of(built), lines_of(now), line)
    if before is None:
        return Origin(text)
    return Origin(text, source_map.get(path, {}).get(before, ()), before, edited)


def _line_before(built: list[str], now: list[str], line: int) -> tuple[int | None, bool]:
    """The line of the last build that `line` was, and whether it was edited; None for a line of the user's own."""
    here = next(each for each in stretches(built, now) if each.new < line <= each.new_end)
    before = next((old + 1 for old, new in here.pairs if new + 1 == line), None)
    return before, before is not None and not here.equal
