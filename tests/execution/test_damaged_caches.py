"""Rows that the library datasets keeps in its cache, and that can no longer be read: one line says what to delete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compiling import BASES
from test_prepare_data import chats, emitted, prepared, write

pytestmark = pytest.mark.executes

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda held: held[: len(held) // 2],
    "empty": lambda held: b"",
    "zeros": lambda held: bytes(len(held)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("files", ["generator-*.arrow", "cache-*.arrow", "dataset_info.json"])
def test_a_damaged_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, damage: str) -> None:
    cache = tmp_path / "cache"
    for name in ("datasets.config.HF_DATASETS_CACHE", "datasets.builder.config.HF_DATASETS_CACHE"):
        monkeypatch.setattr(name, cache)
    write(tmp_path / "chat.jsonl", chats(60))
    script = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    script.main()
    script.PREPARED.unlink()
    for file in (found := [*cache.rglob(files)]):
        file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert found
    with pytest.raises(SystemExit, match=rf"^Cached rows are damaged: .+\. Delete {cache}: it is made anew\.$"):
        script.main()
    cache.rename(tmp_path / "away")
    script.main()
    assert prepared(tmp_path, "sft/train")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ConnectionError("no network")], ids=str)
def test_what_the_system_says_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    write(tmp_path / "chat.jsonl", chats(60))
    script = emitted(tmp_path, BASES["lora-single"], monkeypatch)

    def stopped(*_: object) -> None:
        raise error

    monkeypatch.setattr(script, "prepare", stopped)
    with pytest.raises(OSError, match=str(error.args[-1])):
        script.main()
