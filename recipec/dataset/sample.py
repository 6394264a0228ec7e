"""Read a bounded sample of rows from the files of a data source."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from recipec.dataset.commands import recoded, unpacked, with_commas
from recipec.dataset.files import ENDINGS, TEXT_ENDINGS
from recipec.dataset.rows import (
    READERS,
    Row,
    Unreadable,
    check_row,
    csv_beginning,
    json_beginning,
    unwrapped,
    wrapped_in,
    written_as,
    wrong_character,
)
from recipec.dataset.typed_columns import parquet_length, parquet_rows

SAMPLE_ROWS = 200  # of all files together, where they are larger than WHOLE_BYTES
WHOLE_BYTES = 2**20  # files that have no more than this together are read to their end
WHOLE_ROWS = 2_000  # of such files, which may hold very short rows, or compressed ones
TEXTS_BYTES = 64 * 2**20  # text files that have no more than this together are all held against UTF-8
SAMPLE_BYTES = 4 * 2**20  # of all files together; a row longer than this is not data but a mistake
MOST_LISTED = 5  # files that are not UTF-8, each with its command
MOST_FILES = 20  # that are looked into, from the first to the last: each may have other columns
_TAB = "\t"  # between the fields of .tsv
_LIMIT = f"{SAMPLE_BYTES // 2**20} MiB"


class Sample(Struct, frozen=True):
    """The first rows of the files of a source, and how many it has in all."""

    rows: tuple[Row, ...]
    places: tuple[str, ...]  # "train.jsonl:3" for every row, or "train.json, row 3"
    total_rows: int  # estimated from the sizes of all files, or counted
    total_bytes: int
    counted: bool  # whether the number of rows is exact
    # Rows that hold what no text should, which are in no other field: the place of each, and what it holds.
    broken: tuple[tuple[str, str], ...] = ()
    bytes_each: float | None = None  # the mean of all rows, where the sizes of the files tell it: a text file is a row

    @property
    def whole(self) -> bool:
        """Whether these are all rows."""
        return self.counted and self.total_rows == len(self.rows)


class _Beginning(Struct, frozen=True):
    """What the beginning of a file holds."""

    rows: list[tuple[str, Row]]  # each after its place
    read_bytes: int  # that hold the rows
    whole: bool  # whether this is all of the file


class ReadAs(Struct, frozen=True):
    """How the files of a source are read."""

    ignored: Collection[str] | None = None  # names that the recipe passes over; None passes over any
    times: Collection[str] = ()  # columns of which dates are read
    first_alone: bool = False  # whether only the first file with rows is looked into: the first rows are taken


def read_sample(
    files: list[Path], shown: str, folder: Path | None = None, reading: ReadAs | None = None
) -> Sample | None:
    """Sample the beginning of the files; None for Parquet where pyarrow is not installed. Raises Unreadable.

    `shown` is the path or glob that names the files, relative to `folder`.
    """
    reading = reading or ReadAs()
    kind = _kind(files, shown)
    if kind == ".parquet" and not find_spec("pyarrow"):
        return None
    looked = [_first_with_rows(files, shown, folder)] if reading.first_alone else _spread(files)
    names = [_shown(file, shown, folder, alone=len(files) == 1) for file in looked]
    sizes = {file: _size(file, shown) for file in files}
    rows = -(-_most_rows(sum(sizes.values())) // len(looked))
    if kind == ".txt" and not reading.first_alone and sum(sizes.values()) <= TEXTS_BYTES:
        _check_texts(files, shown, folder)
    if kind == ".parquet":
        return _parquet_sample(files, [*zip(looked, names, strict=True)], rows, reading)
    share = SAMPLE_BYTES // len(looked)
    found = [_beginning(file, kind, name, share) for file, name in zip(looked, names, strict=True)]
    sampled = [row for beginning in found for row in beginning.rows[:rows]]
    if not sampled:
        raise Unreadable(names[0], "it holds no rows")
    sampled, broken = _whole_texts(sampled)
    read_bytes, read_rows = sum(one.read_bytes for one in found), sum(len(one.rows) for one in found)
    places, values = zip(*sampled, strict=True)
    total_bytes = sum(sizes.values())
    if kind == ".txt":
        texts = read_rows + sum(bool(sizes[file]) for file in files if file not in looked)
        return Sample(values, places, texts, total_bytes, True, broken, bytes_each=total_bytes / texts)
    counted = len(looked) == len(files) and all(beginning.whole for beginning in found)
    return Sample(values, places, round(read_rows * total_bytes / read_bytes), total_bytes, counted, broken)


def _check_texts(files: list[Path], shown: str, folder: Path | None) -> None:
    """Raise Unreadable for all files that are not UTF-8: prepare_data.py would stop at one after the other."""
    wrong = [fault for file in files if (fault := _not_utf_8(file, _shown(file, shown, folder, alone=len(files) == 1)))]
    if wrong:
        more = len(wrong) - 1
        others = f"; {more} other file{'s' * (more > 1)} of {shown}, too" * bool(more)
        help = tuple(line for fault in wrong[:MOST_LISTED] for line in fault.help)
        raise Unreadable(wrong[0].where, wrong[0].reason + others, help) from wrong[0]


def _not_utf_8(file: Path, shown: str) -> Unreadable | None:
    try:
        head = file.read_bytes()
        _text(head, len(head), ".txt", shown)
    except OSError as error:
        raise Unreadable(shown, error.strerror or "it cannot be read") from error
    except Unreadable as fault:
        return fault
    return None


def _whole_texts(rows: list[tuple[str, Row]]) -> tuple[list[tuple[str, Row]], tuple[tuple[str, str], ...]]:
    """The rows whose texts can be read, and the others. Raises Unreadable where none can, or one nests too deep."""
    for place, row in rows:
        check_row(row, place)
    held = {place: wrong for place, row in rows if (wrong := wrong_character(row))}
    if len(held) == len(rows):
        place, wrong = next(iter(held.items()))
        raise Unreadable(place, f"it holds {wrong}")
    return [(place, row) for place, row in rows if place not in held], tuple(held.items())


def _most_rows(size: int) -> int:
    """How many rows are sampled of files of that many bytes."""
    return WHOLE_ROWS if size <= WHOLE_BYTES else SAMPLE_ROWS


def _size(file: Path, shown: str) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise Unreadable(shown, error.strerror or "it cannot be read") from error


def first_rows(file: Path, shown: str) -> list[Row]:
    """The rows in the first SAMPLE_BYTES of a file, or the first SAMPLE_ROWS of Parquet. Raises Unreadable."""
    kind = _kind([file], shown)
    if kind == ".parquet":
        return parquet_rows(file, shown, SAMPLE_ROWS, None)[0]
    return [row for _, row in _beginning(file, kind, shown, SAMPLE_BYTES).rows]


def _first_with_rows(files: list[Path], shown: str, folder: Path | None) -> Path:
    """The first file that holds rows, from which on rows are taken; the first of all where none does."""
    first, *others = files
    filled = (file for file in files if first_rows(file, _shown(file, shown, folder, alone=False)))
    return next(filled, first) if others else first


def _spread(files: list[Path]) -> list[Path]:
    """At most MOST_FILES of them, from the first to the last."""
    last = len(files) - 1
    if last < MOST_FILES:
        return files
    return [files[index * last // (MOST_FILES - 1)] for index in range(MOST_FILES)]


def _shown(file: Path, shown: str, folder: Path | None, *, alone: bool) -> str:
    """A file as the recipe would write it."""
    if folder is not None and file.is_relative_to(folder):
        return file.relative_to(folder).as_posix()
    return shown if alone else str(file)


def _parquet_sample(files: list[Path], looked: list[tuple[Path, str]], limit: int, reading: ReadAs) -> Sample:
    """The first rows of Parquet files, which say themselves how many they have. Raises Unreadable."""
    read = {file: parquet_rows(file, name, limit, reading.ignored, reading.times) for file, name in looked}
    found = [(f"{name}, row {number}", row) for file, name in looked for number, row in enumerate(read[file][0], 1)]
    if not found:
        raise Unreadable(looked[0][1], "it holds no rows")
    found, broken = _whole_texts(found)
    total = sum(read[file][1] if file in read else parquet_length(file, str(file)) for file in files)
    places, rows = zip(*found, strict=True)
    return Sample(rows, places, total, sum(file.stat().st_size for file in files), True, broken)


def _beginning(file: Path, kind: str, shown: str, limit: int) -> _Beginning:
    """What the first `limit` bytes of a file hold, or where its first row is longer, more. Raises Unreadable."""
    try:
        head = _head(file, limit)
    except OSError as error:
        raise Unreadable(shown, error.strerror or "it cannot be read") from error
    text, whole = _text(head, limit, kind, shown), len(head) <= limit
    if kind == ".json":
        _check_list(text, shown)
    kind = written_as(kind, text)
    found, text = (list(READERS[kind](text, shown)), text) if whole else _cut_rows(text, kind, shown)
    if not found and not whole and limit < SAMPLE_BYTES:
        return _beginning(file, kind, shown, SAMPLE_BYTES)
    if not found and not whole:
        first = "line, which is a row," if kind == ".jsonl" else "row"
        raise Unreadable(shown, f"its first {first} is longer than {_LIMIT}, the most that a row may have")
    between = ", row " if kind == ".json" else ":"
    rows = [(f"{shown}{between}{number}", row) for number, row in found]
    return _Beginning(rows, len(head) if whole else len(text.encode()), whole)


def _check_list(text: str, shown: str) -> None:
    """Raise Unreadable where a file is one object that holds the rows in a list, and no row a line."""
    first = text.lstrip().partition("\n")[0]
    if (name := wrapped_in(text)) and not _is_json(first):
        said = f"it is one JSON object, whose `{name}` is a list: the rows must be the list, or one a line"
        raise Unreadable(shown, said, (unwrapped(name, shown),))


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _cut_rows(text: str, kind: str, shown: str) -> tuple[list[tuple[int, Row]], str]:
    """The whole rows of a file that goes on, and the text that holds them."""
    if kind == ".json":
        return json_beginning(text, shown)
    text = text if kind == ".txt" else text[: text.rfind("\n") + 1]
    return (csv_beginning(text, shown) if kind == ".csv" else list(READERS[kind](text, shown))), text


def _kind(files: list[Path], shown: str) -> str:
    """The ending that all files have; of texts, .txt."""
    endings = sorted({file.suffix for file in files})
    if {*endings} <= {*TEXT_ENDINGS}:
        return TEXT_ENDINGS[0]
    if len(endings) > 1:
        raise Unreadable(shown, f"its files have several endings ({', '.join(endings)}): one source must have one")
    if endings[0] not in ENDINGS:
        help = unpacked(shown) or (f"write it as CSV: {with_commas(shown, _TAB)}" if endings[0] == ".tsv" else "")
        raise Unreadable(shown, f"its ending `{endings[0]}` is not one of {', '.join(ENDINGS)}", (help,) * bool(help))
    return endings[0]


def _head(file: Path, limit: int) -> bytes:
    """At most one byte more than the limit, which tells that there are more."""
    with file.open("rb") as stream:
        return stream.read(limit + 1)


def _text(head: bytes, limit: int, kind: str, shown: str) -> str:
    """The head as text: without a byte order mark and a character cut at the end."""
    try:
        text, _ = codecs.utf_8_decode(head[:limit], "strict", len(head) <= limit)
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        reason = f"it is not UTF-8 (byte 0x{head[error.start]:02x}): save the file as UTF-8"
        raise Unreadable(f"{shown}:{line}", reason, tuple(recoded(shown, head[:limit]))) from error
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if kind == ".csv" else text
