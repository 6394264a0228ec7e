"""The data that a bundle is run on: a sample of the user's own where it is at hand, else synthetic rows, as files."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct, field

from recipec.axes.row_formats import IDS
from recipec.dataset import Unreadable, files_of, first_rows
from recipec.verify.bundle import Bundle
from recipec.verify.outside import below_root
from recipec.verify.rows import NoSample, Row, SourceData, bundle_data, sample_rows

FEWEST_OWN_ROWS = 40  # fewer short rows than this leave nothing to hold out
_AROUND_TOOLS = 200  # characters' worth of what a chat template writes around tools; the vocabulary has its words


class PlacedData(Struct):
    """What was put under the private data root."""

    description: str
    texts: list[str] = field(default_factory=list)  # for the stand-in's tokenizer
    hub: dict[str, str] = field(default_factory=dict)


def place_data(bundle: Bundle, root: Path, hub_root: Path, rows: int, fewest_own: int = FEWEST_OWN_ROWS) -> PlacedData:
    """Write `rows` rows for every source of the bundle below `root`, those of the Hub below `hub_root`.

    A source with fewer than `fewest_own` short rows of the user's own is stood in for.
    """
    try:
        data = bundle_data(bundle.root / "prepare_data.py")
    except (OSError, ValueError, KeyError) as error:
        raise NoSample(f"prepare_data.py: {error}") from error
    own = _own_root()
    few = f" (one under DATA_ROOT needs {fewest_own} short rows to be used)" if own else ""
    placed = PlacedData(f"{rows} synthetic rows for each source{few}")
    for stage in data.stages:
        for index, source in enumerate(stage.sources):
            sample = _own_rows(own, source, rows, fewest_own)
            if sample is not None:
                placed.description = f"up to {rows} rows of the files under DATA_ROOT, short ones"
            sample = sample or sample_rows(source, rows, data.split, seed=index)
            place_rows(source.given, sample, root, hub_root, placed)
            placed.texts += [json.dumps(row, ensure_ascii=False) for row in sample]
    return placed


def _own_root() -> Path | None:
    root = os.environ.get("DATA_ROOT")
    return Path(root) if root and Path(root).is_dir() else None


def _own_rows(root: Path | None, source: SourceData, count: int, fewest: int) -> list[Row] | None:
    """Up to `count` of the user's rows that are short enough for the stand-in's tokenizer; None if fewer than `fewest`.

    Tokens of the user's are those of the real model's vocabulary.
    """
    if root is None or "path" not in source.given or source.content == IDS:
        return None
    files = files_of(source.given["path"], root)
    most = 3 * source.max_length  # characters: the small vocabulary spends a token on few of them
    short = [row for row in read_rows(files, 20 * count) if _characters(row) <= most]
    return short[:count] if len(short) >= fewest else None


def _characters(row: Row) -> int:
    return len(json.dumps(row, default=str)) + _AROUND_TOOLS * bool(row.get("tools"))


def place_rows(source: Mapping[str, Any], rows: list[Row], root: Path, hub_root: Path, placed: PlacedData) -> None:
    """Write the rows where a source is read from, unless another one has written there."""
    if "hub" in source:
        key = f"{source['hub']} {source.get('subset')} {source.get('split')}"
        path = hub_root / f"{key.replace('/', '--').replace(' ', '--')}.jsonl"
        placed.hub[key] = str(path)
    else:
        path = root / local_path(source["path"])
    if not path.exists():
        write_rows(path, rows)


def local_path(pattern: str) -> str:
    """A file name that a path or glob of the recipe matches, once it is below the data root."""
    parts = PurePosixPath(below_root(pattern)).parts
    return "/".join(_literal(part) for part in parts if part != "**")


def _literal(part: str) -> str:
    """A name that a glob matches: the first of [..], anything for * and ?."""
    text = ""
    while part:
        if part[0] == "[" and "]" in part:
            text, part = text + part[1], part.partition("]")[2]
        else:
            text, part = text + {"*": "sample", "?": "x"}.get(part[0], part[0]), part[1:]
    return text


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as the file's ending says: .jsonl, .json, .csv, .parquet, or a text with one document a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writers = {".jsonl": _write_jsonl, ".json": _write_json, ".csv": _write_csv, ".parquet": _write_parquet}
    writers.get(path.suffix, _write_text)(path, rows)


def _write_jsonl(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


def _write_json(path: Path, rows: Sequence[Row]) -> None:
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    from datasets import Dataset

    Dataset.from_list(list(rows)).to_parquet(path)


def _write_text(path: Path, rows: Sequence[Row]) -> None:
    """A folder of documents: the first is `path` itself, the others stand beside it where a glob finds them."""
    for index, row in enumerate(rows):
        target = path if index == 0 else path.with_name(f"{path.stem}{index}{path.suffix}")
        target.write_text(" ".join(str(value) for value in row.values()) + "\n", encoding="utf-8")


def read_rows(files: Iterable[Path], limit: int) -> list[Row]:
    """Up to `limit` rows from the beginning of each file; none of one that prepare_data.py will refuse."""
    return [row for file in files for row in _rows(file)[:limit]]


def _rows(file: Path) -> list[Row]:
    try:
        return first_rows(file, str(file))
    except Unreadable:
        return []
