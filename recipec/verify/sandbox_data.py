"""The rows that a bundle is run on: a sample of the user's own where they are at hand, else synthetic ones."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from recipec.verify.bundle import Bundle
from recipec.verify.data_files import Row, local_path, read_rows, write_rows
from recipec.verify.data_shape import StageData, bundle_data
from recipec.verify.sample_rows import sample_rows

_FEWEST_OWN_ROWS = 40  # fewer short rows than this leave nothing to hold out


class NoSample(Exception):
    """The bundle's data cannot be stood in for: the message says why."""


@dataclass(slots=True)
class PlacedData:
    """What was put under the private data root."""

    description: str
    texts: list[str] = field(default_factory=list)  # for the stand-in's tokenizer
    hub: dict[str, str] = field(default_factory=dict)


def place_data(bundle: Bundle, root: Path, hub_root: Path, rows: int) -> PlacedData:
    """Write `rows` rows for every source of the bundle below `root`, those of the hub below `hub_root`."""
    try:
        data = bundle_data(bundle.root / "prepare_data.py")
    except (OSError, ValueError, KeyError) as error:
        raise NoSample(f"prepare_data.py: {error}") from error
    own = _own_root()
    placed = PlacedData(f"{rows} synthetic rows for each source")
    for stage in data.stages:
        for index, source in enumerate(stage.sources):
            sample = _own_rows(own, source, stage, rows)
            if sample is not None:
                placed.description = f"up to {rows} rows of the files under DATA_ROOT, short ones"
            sample = sample or sample_rows(stage, rows, data.split, seed=index)
            _place(source, sample, root, hub_root, placed)
            placed.texts += [json.dumps(row, ensure_ascii=False) for row in sample]
    return placed


def _own_root() -> Path | None:
    root = os.environ.get("DATA_ROOT")
    return Path(root) if root and Path(root).is_dir() else None


def _own_rows(root: Path | None, source: dict, stage: StageData, count: int) -> list[Row] | None:
    """The user's rows that are short enough for the stand-in's tokenizer; None when there are too few."""
    if root is None or "path" not in source:
        return None
    files = sorted(root.glob(source["path"]))
    most = 3 * stage.max_length  # characters: the small vocabulary spends a token on few of them
    short = [row for row in read_rows(files, 20 * count) if len(json.dumps(row, default=str)) <= most]
    return short[:count] if len(short) >= _FEWEST_OWN_ROWS else None


def _place(source: dict, rows: list[Row], root: Path, hub_root: Path, placed: PlacedData) -> None:
    if "hub" in source:
        path = hub_root / f"{source['hub'].replace('/', '--')}.jsonl"
        placed.hub[source["hub"]] = str(path)
    else:
        try:
            path = root / local_path(source["path"])
        except ValueError as error:
            raise NoSample(str(error)) from error
    if not path.exists():
        write_rows(path, rows)
