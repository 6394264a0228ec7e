"""Writing and sampling the files that a bundle reads, under a private data root."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

Row = dict[str, Any]


def local_path(pattern: str) -> str:
    """A file name that a path or glob of the recipe matches; raises ValueError for one outside the data root."""
    path = PurePosixPath(pattern)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{pattern} is outside the data root")
    return "/".join("" if part == "**" else _literal(part) for part in path.parts).strip("/").replace("//", "/")


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
    """Write rows as the file's ending says: .jsonl, .json, .csv, .parquet, or .txt with one document a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writers = {".jsonl": _write_jsonl, ".json": _write_jsonl, ".csv": _write_csv, ".parquet": _write_parquet}
    writers.get(path.suffix, _write_text)(path, rows)


def _write_jsonl(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


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
    """Up to `limit` rows from the beginning of each file."""
    return [row for file in files for row in islice(_rows(file, limit), limit)]


def _rows(path: Path, limit: int) -> Iterable[Row]:
    if path.suffix in (".jsonl", ".json"):
        return _json_rows(path)
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(islice(csv.DictReader(file), limit))
    if path.suffix == ".parquet":
        from datasets import Dataset

        return Dataset.from_parquet(str(path)).take(limit).to_list()
    return [{"text": path.read_text(encoding="utf-8")}]


def _json_rows(path: Path) -> Iterable[Row]:
    """Rows of a JSON array, or one row a line."""
    with path.open(encoding="utf-8") as file:
        if file.read(1) == "[":
            file.seek(0)
            yield from json.load(file)
            return
        file.seek(0)
        yield from (json.loads(line) for line in file if line.strip())
