"""Read a bounded sample of rows from the files of a data source."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_ROWS = 200
SAMPLE_BYTES = 4 * 2**20  # of each file; a row longer than this is not data but a mistake

Row = dict[str, Any]


class Unreadable(Exception):
    """A data file cannot be read as rows: `reason` says why, `where` names the file and line."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where, self.reason = where, reason


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a source, and how many it has in all."""

    file: str  # the first file, for messages
    rows: tuple[Row, ...]
    lines: tuple[int, ...]  # 1-based line of each row in its file
    total_rows: int | None  # estimated from the sizes of all files; None when the sample cannot tell (a .txt document)
    total_bytes: int


def files_of(pattern: str, folder: Path) -> list[Path]:
    """The files that a path or glob names, relative to `folder`, in a stable order."""
    path = folder / pattern
    if path.is_file():
        return [path]
    anchor = Path(path.anchor)
    return sorted(found for found in anchor.glob(str(path.relative_to(anchor))) if found.is_file())


def read_sample(files: list[Path], shown: str) -> Sample | None:
    """Sample the first file; None when its kind (parquet) cannot be read without a library.

    Raises Unreadable.
    """
    first, total_bytes = files[0], sum(file.stat().st_size for file in files)
    readers = {".jsonl": _json_lines, ".json": _json_array, ".csv": _csv_rows, ".txt": _document}
    if first.suffix == ".parquet":
        return None
    if first.suffix not in readers:
        raise Unreadable(shown, f"its ending `{first.suffix}` is not one of .jsonl, .json, .csv, .parquet, .txt")
    text, whole = _head(first, shown)
    numbered = list(readers[first.suffix](text, whole, shown))[:SAMPLE_ROWS]
    if not numbered:
        raise Unreadable(shown, "it holds no rows")
    lines, rows = zip(*numbered, strict=True)
    return Sample(shown, rows, lines, _total_rows(first, text, rows, lines, total_bytes), total_bytes)


def _head(file: Path, shown: str) -> tuple[str, bool]:
    """The first SAMPLE_BYTES as text, and whether that is the whole file."""
    try:
        with file.open("rb") as stream:
            data = stream.read(SAMPLE_BYTES)
            whole = not stream.read(1)
    except OSError as error:
        raise Unreadable(shown, error.strerror or "it cannot be read") from error
    if not whole:
        data = data[: data.rfind(b"\n") + 1]
    try:
        return data.decode("utf-8-sig"), whole
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{shown}:{line}", f"it is not UTF-8 (byte 0x{data[error.start]:02x})") from error


def _json_lines(text: str, whole: bool, shown: str) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, _object(line, f"{shown}:{number}")


def _json_array(text: str, whole: bool, shown: str) -> Iterator[tuple[int, Row]]:
    if not whole:
        raise Unreadable(shown, f"a .json file above {SAMPLE_BYTES // 2**20} MiB: write it as .jsonl, one row per line")
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(shown, f"it is not JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unreadable(shown, "it is not a list of objects")
    yield from ((1, row) for row in rows)


def _csv_rows(text: str, whole: bool, shown: str) -> Iterator[tuple[int, Row]]:
    reader = csv.DictReader(io.StringIO(text))
    for row in reader:
        yield reader.line_num, dict(row)


def _document(text: str, whole: bool, shown: str) -> Iterator[tuple[int, Row]]:
    if text.strip():
        yield 1, {"text": text}


def _object(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unreadable(where, f"this line is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise Unreadable(where, f"this line is {type(row).__name__}, not an object")
    return row


def _total_rows(first: Path, text: str, rows: tuple[Row, ...], lines: tuple[int, ...], total_bytes: int) -> int | None:
    """All rows: counted when the head is everything, else by the bytes a row takes."""
    if first.suffix == ".txt":
        return None
    if first.suffix == ".json":
        return len(json.loads(text))
    seen = text.count("\n") + (not text.endswith("\n"))
    read_bytes = len(text.encode())
    return seen if read_bytes >= total_bytes else round(total_bytes * seen / read_bytes)
