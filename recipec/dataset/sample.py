"""Read a bounded sample of rows from the files of a data source."""

from __future__ import annotations

import codecs
import json
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from recipec.dataset.files import ENDINGS
from recipec.dataset.rows import READERS, Row, Unreadable, csv_beginning, json_beginning, written_as

SAMPLE_ROWS = 200
SAMPLE_BYTES = 4 * 2**20  # of the first file; a row longer than this is not data but a mistake
_LIMIT = f"{SAMPLE_BYTES // 2**20} MiB"


class Sample(Struct, frozen=True):
    """The first rows of a source, and how many it has in all."""

    file: str  # the first of the source, as the recipe would write it, for messages
    kind: str  # the ending that says how its files are written
    rows: tuple[Row, ...]
    lines: tuple[int, ...]  # 1-based line of each row in its file; of JSON lists and Parquet, the number of the row
    total_rows: int | None  # estimated from the sizes of all files; None when the sample cannot tell (a .txt document)
    total_bytes: int
    files: int

    @property
    def counted(self) -> bool:
        """Whether the number of rows is exact."""
        return self.kind == ".parquet" or (self.files == 1 and self.total_bytes <= SAMPLE_BYTES)

    @property
    def places(self) -> list[str]:
        """ "train.jsonl:3" for every row, or "train.json, row 3"."""
        between = ", row " if self.kind in (".json", ".parquet") else ":"
        return [f"{self.file}{between}{line}" for line in self.lines]

    @property
    def whole(self) -> bool:
        """Whether these are all rows."""
        return self.files == 1 and self.total_rows == len(self.rows)


def read_sample(files: list[Path], shown: str, folder: Path | None = None) -> Sample | None:
    """Sample the first file; None for Parquet where pyarrow is not installed. Raises Unreadable.

    `shown` is the path or glob that names the files, relative to `folder`.
    """
    kind = _kind(files, shown)
    if folder is not None and files[0].is_relative_to(folder):
        shown = files[0].relative_to(folder).as_posix()
    if kind == ".parquet":
        return parquet_sample(files, shown) if find_spec("pyarrow") else None
    kind, found, read_bytes = _beginning(files[0], kind, shown)
    lines, rows = zip(*found[:SAMPLE_ROWS], strict=True)
    _check_characters(lines, rows, shown)
    total_bytes = sum(file.stat().st_size for file in files)
    total = None if kind == ".txt" else round(len(found) * total_bytes / read_bytes)
    return Sample(shown, kind, rows, lines, total, total_bytes, len(files))


def first_rows(file: Path, shown: str) -> list[Row]:
    """The rows in the first SAMPLE_BYTES of a file, or the first SAMPLE_ROWS of Parquet. Raises Unreadable."""
    kind = _kind([file], shown)
    if kind == ".parquet":
        return list(parquet_sample([file], shown).rows)
    return [row for _, row in _beginning(file, kind, shown)[1]]


def _beginning(file: Path, kind: str, shown: str) -> tuple[str, list[tuple[int, Row]], int]:
    """How a file is written, the rows in its first SAMPLE_BYTES, and how many bytes hold them. Raises Unreadable."""
    try:
        head = _head(file)
    except OSError as error:
        raise Unreadable(shown, error.strerror or "it cannot be read") from error
    text, whole = _text(head, kind, shown), len(head) <= SAMPLE_BYTES
    kind = written_as(kind, text)
    if kind == ".json" and not whole:
        found, text = json_beginning(text, shown)
    else:
        text = text if whole else _cut(text, kind, shown)
        cut_csv = kind == ".csv" and not whole
        found = csv_beginning(text, shown) if cut_csv else list(READERS[kind](text, shown))
    if not found:
        raise Unreadable(shown, "it holds no rows" if whole else f"its first row is longer than {_LIMIT}")
    return kind, found, len(head) if whole else len(text.encode())


def parquet_sample(files: list[Path], shown: str) -> Sample:
    """The first rows of Parquet files, which say themselves how many they have. Raises Unreadable."""
    from pyarrow import ArrowException, parquet

    try:
        batch = next(parquet.ParquetFile(files[0]).iter_batches(batch_size=SAMPLE_ROWS), None)
        total = sum(parquet.read_metadata(file).num_rows for file in files)
    except ArrowException as error:
        raise Unreadable(shown, f"it is not Parquet: {str(error).splitlines()[0]}") from error
    except OSError as error:
        raise Unreadable(shown, error.strerror or "it cannot be read") from error
    rows = tuple(batch.to_pylist()) if batch is not None else ()
    if not rows:
        raise Unreadable(shown, "it holds no rows")
    size = sum(file.stat().st_size for file in files)
    numbers = tuple(range(1, len(rows) + 1))
    return Sample(shown, ".parquet", rows, numbers, total, size, len(files))


def _check_characters(lines: tuple[int, ...], rows: tuple[Row, ...], shown: str) -> None:
    """Half a character, which JSON can write, has no bytes."""
    for line, row in zip(lines, rows, strict=True):
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise Unreadable(f"{shown}:{line}", f"it holds half a character: {half}") from error


def _kind(files: list[Path], shown: str) -> str:
    """The ending that all files have."""
    endings = sorted({file.suffix for file in files})
    if len(endings) > 1:
        raise Unreadable(shown, f"its files have several endings ({', '.join(endings)}): one source must have one")
    if endings[0] not in ENDINGS:
        raise Unreadable(shown, f"its ending `{endings[0]}` is not one of {', '.join(ENDINGS)}")
    return endings[0]


def _head(file: Path) -> bytes:
    """At most one byte more than SAMPLE_BYTES, which tells that there are more."""
    with file.open("rb") as stream:
        return stream.read(SAMPLE_BYTES + 1)


def _text(head: bytes, kind: str, shown: str) -> str:
    """The head as text: without a byte order mark and a character cut at the end."""
    try:
        text, _ = codecs.utf_8_decode(head[:SAMPLE_BYTES], "strict", len(head) <= SAMPLE_BYTES)
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        reason = f"it is not UTF-8 (byte 0x{head[error.start]:02x}): save the file as UTF-8"
        raise Unreadable(f"{shown}:{line}", reason) from error
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if kind == ".csv" else text


def _cut(text: str, kind: str, shown: str) -> str:
    """The whole lines of a file that goes on."""
    if kind == ".txt":
        return text
    if "\n" not in text:
        raise Unreadable(shown, f"its first line is longer than {_LIMIT}: it must have one row per line")
    return text[: text.rfind("\n") + 1]
