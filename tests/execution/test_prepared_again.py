"""What a second launch finds prepared: rows of the Hub are those of a commit, and equal rows stay as they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, with_key
from test_prepare_data import chats, emitted, write

pytestmark = pytest.mark.executes

COMMIT = "a" * 40


def of_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch, base: str = "lora-single", **source: Any) -> ModuleType:
    """The script for a data set of the Hub; a folder stands in for it, which the library looks for first."""
    (folder / "org/rows").mkdir(parents=True)
    write(folder / "org/rows/train.jsonl", chats(50))
    recipe = with_key(with_key(BASES[base], "data.train", [{"hub": "org/rows", **source}]), "data.format", "chat")
    monkeypatch.chdir(folder)
    return emitted(folder, recipe, monkeypatch)


def refuse(monkeypatch: pytest.MonkeyPatch, module: ModuleType, *names: str) -> None:
    for name in names:
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("prepared again"))


@pytest.mark.parametrize("source", [{}, {"take": 40}], ids=str)
def test_rows_of_one_commit_of_the_hub_are_prepared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: dict[str, int]
) -> None:
    module = of_the_hub(tmp_path, monkeypatch, **source)
    module.main()
    before = module.inputs_digest(module.load_tokenizer())
    with monkeypatch.context() as once:
        refuse(once, module, "prepare", "load_dataset")
        capsys.readouterr()
        module.main()
        assert capsys.readouterr().out.endswith("is up to date: nothing to prepare\n")
    write(tmp_path / "org/rows/train.jsonl", chats(51))
    assert module.inputs_digest(module.load_tokenizer()) != before
    module.main()
    assert module.up_to_date(module.inputs_digest(module.load_tokenizer()))


def test_a_file_beside_the_hub_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", chats(30))
    monkeypatch.setattr("datasets.load_dataset_builder", lambda *_, **__: SimpleNamespace(hash=COMMIT))
    recipe = with_key(BASES["lora-single"], "data.train", [{"hub": "org/rows"}, "chat.jsonl"])
    module = emitted(tmp_path, with_key(recipe, "data.format", "chat"), monkeypatch)
    tokenizer, found = module.load_tokenizer(), set()
    for count, commit in ((30, COMMIT), (31, COMMIT), (31, "b" * 40)):
        write(tmp_path / "chat.jsonl", chats(count))
        monkeypatch.setattr(
            module, "load_dataset_builder", lambda *_, commit=commit, **__: SimpleNamespace(hash=commit)
        )
        found.add(module.inputs_digest(tmp_path, tokenizer))
    assert len(found) == 3


def test_nobody_is_asked_for_a_commit_that_is_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were prepared elsewhere are taken where neither the Hub nor its cache is."""
    module = of_the_hub(tmp_path, monkeypatch, revision=COMMIT)
    module.main()
    (tmp_path / "org/rows/train.jsonl").unlink()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    refuse(monkeypatch, module, "prepare", "load_dataset")
    module.main()


@pytest.mark.parametrize("revision", [None, "main", "v1.0"])
def test_a_branch_or_a_tag_may_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str | None) -> None:
    module = of_the_hub(tmp_path, monkeypatch, **({"revision": revision} if revision else {}))
    asked: list[object] = []
    answer = SimpleNamespace(hash=COMMIT)
    monkeypatch.setattr(module, "load_dataset_builder", lambda *_, **given: asked.append(given["revision"]) or answer)
    module.inputs_digest(module.load_tokenizer())
    assert asked == [revision]


@pytest.mark.parametrize("base", ["lora-single", "cpu"])
def test_equal_rows_keep_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """The library tokenizes the rows of a file anew that is newer, whatever it holds."""
    module = of_the_hub(tmp_path, monkeypatch, base)
    module.main()
    files = {path: path.read_bytes() for path in (tmp_path / "data/sft").glob("*.jsonl")}
    for path in files:
        os.utime(path, (1, 1))
    module.PREPARED.unlink()
    module.main()
    assert len(files) == 3 and {path: path.read_bytes() for path in files} == files
    assert {path.stat().st_mtime for path in files} == {1}
    assert not [*tmp_path.rglob("*.new")]

    (tmp_path / "data/sft/test.jsonl").write_text("{}\n")
    write(tmp_path / "org/rows/train.jsonl", chats(60))
    module.main()
    assert min(path.stat().st_mtime for path in files) > 1, "other rows take the place of the old ones"


@pytest.mark.parametrize("left", ["", '{"inputs": "'])
def test_a_record_that_was_cut_off_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    module = of_the_hub(tmp_path, monkeypatch, "lora-single")
    module.main()
    record = module.PREPARED.read_text()
    module.PREPARED.write_text(left)
    module.main()
    assert module.PREPARED.read_text() == record


def test_two_starts_prepare_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second finds the rows up to date; both at once would write one file."""
    write(tmp_path / "chat.jsonl", chats(40))
    script = emitted(tmp_path, BASES["lora-single"], monkeypatch)
    (tmp_path / "data").mkdir(exist_ok=True)
    holding = (
        "import fcntl, sys, time; lock = open('data/lock', 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with Popen([sys.executable, "-c", holding], cwd=tmp_path, stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        second = Thread(target=script.main)
        second.start()
        second.join(2)
        assert second.is_alive() and not (tmp_path / "data/prepared.json").exists()
        assert "Another start is preparing" in capsys.readouterr().out
        other.stdin.close()
        second.join(60)
    assert (tmp_path / "data/prepared.json").exists()
