"""Columns of a data set of the Hub are refused by its first rows, before it is downloaded; out of reach it is named."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, with_key
from datasets import Dataset, IterableDataset
from test_prepare_data import chats, emitted

pytestmark = pytest.mark.executes

COMMIT = "a" * 40


def script_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **source: Any) -> ModuleType:
    recipe = with_key(with_key(BASES["cpu"], "data.train", [{"hub": "org/rows", **source}]), "data.format", "chat")
    script = emitted(folder, recipe, monkeypatch)
    monkeypatch.setattr(script, "hub_commit", lambda _: "of now", raising=False)
    return script


def serve(monkeypatch: pytest.MonkeyPatch, script: ModuleType, rows: list[dict[str, Any]]) -> list[str]:
    """Rows in the place of the Hub's; returns how they were loaded, as that goes on."""
    loaded: list[str] = []

    def load(*_: Any, streaming: bool = False, **__: Any) -> Dataset | IterableDataset:
        loaded.append("streamed" if streaming else "downloaded")
        return IterableDataset.from_generator(lambda: iter(rows)) if streaming else Dataset.from_list(rows)

    monkeypatch.setattr(script, "load_dataset", load)
    return loaded


@pytest.mark.parametrize("source", [{}, {"take": 25}], ids=str)
def test_columns_of_the_first_rows_are_refused_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, int]
) -> None:
    script = script_of(tmp_path, monkeypatch, **source)
    loaded = serve(monkeypatch, script, [row | {"id": n} for n, row in enumerate(chats(30))])
    with pytest.raises(SystemExit, match=r"`ignore = \[\"id\"\]` under \[data\]"):
        script.main()
    assert loaded == ["streamed"]


def test_a_column_behind_the_first_rows_is_refused_before_rows_are_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = script_of(tmp_path, monkeypatch)
    loaded = serve(monkeypatch, script, [row | {"id": n if n > 20 else None} for n, row in enumerate(chats(30))])
    monkeypatch.setattr(script, "FIRST_ROWS", 10)
    monkeypatch.setattr(script, "prepare", lambda *_: pytest.fail("rows are prepared"))
    with pytest.raises(SystemExit, match=r"`ignore = \[\"id\"\]` under \[data\]"):
        script.main()
    assert loaded == ["streamed", "downloaded"]


def test_an_archive_that_comes_only_as_a_whole_is_looked_at_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = script_of(tmp_path, monkeypatch)

    def load(*_: Any, streaming: bool = False, **__: Any) -> Dataset:
        if streaming:
            raise NotImplementedError
        return Dataset.from_list([row | {"id": 1} for row in chats(30)])

    monkeypatch.setattr(script, "load_dataset", load)
    with pytest.raises(SystemExit, match=r"`ignore = \[\"id\"\]` under \[data\]"):
        script.main()


def test_a_connection_that_is_lost_behind_the_first_rows_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = script_of(tmp_path, monkeypatch)

    def load(*_: Any, streaming: bool = False, **__: Any) -> IterableDataset:
        if streaming:
            return IterableDataset.from_generator(lambda: iter(chats(30)))
        raise ConnectionError("gone")

    monkeypatch.setattr(script, "load_dataset", load)
    with pytest.raises(SystemExit, match=r"^org/rows is not in the cache .* cannot be reached \(gone\)"):
        script.main()


@pytest.mark.parametrize("source", [{}, {"revision": COMMIT}], ids=["moving", "pinned"])
def test_a_data_set_out_of_reach_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str]
) -> None:
    recipe = with_key(with_key(BASES["cpu"], "data.train", [{"hub": "org/rows", **source}]), "data.format", "chat")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    script = emitted(tmp_path, recipe, monkeypatch)
    with pytest.raises(SystemExit) as told:
        script.main()
    assert str(told.value).startswith("org/rows is not in the cache of this machine, and the Hub cannot be reached (")
    assert "HF_HOME" in str(told.value) and "`revision` of this source" in str(told.value)
