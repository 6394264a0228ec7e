"""A column of times that mixes dates and numbers: refused at build and in preparation, with a row and its value."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import Tables, compiled, with_key
from test_leaks import recipe
from test_prepare_data import chats, emitted, write
from test_splits import UNMARKED

pytestmark = pytest.mark.executes

DATED, NUMBERED = "2024-01-31", 1_700_000_000


def placed(at: list[Any]) -> list[dict[str, Any]]:
    return [row | {"at": value} for row, value in zip(chats(len(at)), at, strict=True)]


@pytest.mark.parametrize("each", [False, True], ids=["marked", "each answer a row"])
@pytest.mark.parametrize(
    ("most", "other"), [(DATED, NUMBERED), (DATED, "2021"), (NUMBERED, DATED), ("3.5", "2024-01-31T10:00:00Z")]
)
def test_dates_and_numbers_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: object, other: object, each: bool
) -> None:
    made: Tables = recipe(split={"time": "at"})
    made = with_key(made, "model.name", UNMARKED) if each else made
    write(tmp_path / "chat.jsonl", placed([most] * 60))
    script = emitted(tmp_path, made, monkeypatch)
    script.main()
    write(tmp_path / "chat.jsonl", placed([*[most] * 40, *[other] * 20]))
    wrong = f"`at` holds {other}, and {most} in chat.jsonl"
    (found,) = [one for one in compiled(tmp_path, made).diagnostics if one.code[0] == "E"]
    assert (found.code, found.title) == ("E0304", "20 of 60 sampled rows of data.train cannot be used")
    assert found.labels[0].message.startswith(f"chat.jsonl:41 and 19 other rows: {wrong}:1: ")
    with pytest.raises(SystemExit) as stopped:
        script.main()
    assert str(stopped.value).startswith(f"chat.jsonl, line 41: {wrong}, line 1: dates and numbers cannot be compared")


def test_times_of_several_files_are_of_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(train=["chat.jsonl", "more.jsonl"], split={"time": "at"})
    for name in ("chat.jsonl", "more.jsonl"):
        write(tmp_path / name, placed([DATED] * 60))
    script = emitted(tmp_path, made, monkeypatch)
    write(tmp_path / "more.jsonl", placed([NUMBERED] * 60))
    (found,) = [one for one in compiled(tmp_path, made).diagnostics if one.code[0] == "E"]
    assert found.labels[0].message.startswith("more.jsonl:1 and 59 other rows: `at` holds 1700000000, and 2024-01-31")
    with pytest.raises(SystemExit, match=r"^more\.jsonl, line 1: `at` holds 1700000000, and 2024-01-31 in chat\.jsonl"):
        script.main()


def test_files_that_are_not_split_have_times_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", placed([DATED] * 60))
    write(tmp_path / "own.jsonl", [row | {"at": 5} for row in chats(80)[60:]])
    emitted(tmp_path, recipe(split={"time": "at"}, eval="own.jsonl"), monkeypatch).main()


SECONDS, THOUSANDTHS = 1_700_000_000, 1_700_000_000_123


@pytest.mark.parametrize(
    ("most", "other", "units"),
    [
        (SECONDS, THOUSANDTHS, ("seconds", "milliseconds")),
        (str(THOUSANDTHS), 1_700_000_000.5, ("milliseconds", "seconds")),
        (1_700_000_000_123_456, SECONDS, ("microseconds", "seconds")),
    ],
)
def test_numbers_of_two_units_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: Any, other: Any, units: tuple[str, str]
) -> None:
    made = recipe(split={"time": "at"})
    write(tmp_path / "chat.jsonl", placed([most] * 60))
    script = emitted(tmp_path, made, monkeypatch)
    script.main()
    write(tmp_path / "chat.jsonl", placed([*[most] * 40, 3, *[other] * 19]))
    wrong = f"`at` holds {other}, {units[1]} since 1970, and {most} in chat.jsonl"
    (found,) = [one for one in compiled(tmp_path, made).diagnostics if one.code[0] == "E"]
    assert found.title == "19 of 60 sampled rows of data.train cannot be used"
    assert found.labels[0].message == f"chat.jsonl:42 and 18 other rows: {wrong}:1, {units[0]}"
    with pytest.raises(SystemExit) as stopped:
        script.main()
    assert str(stopped.value).startswith(f"chat.jsonl, line 42: {wrong}, line 1, {units[0]}. Write all of them in one ")


@pytest.mark.parametrize("values", [(20240131, 20240131235959), (2024, SECONDS), (THOUSANDTHS, 0, -5)], ids=str)
def test_numbers_that_are_of_no_two_units_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: tuple[int, ...]
) -> None:
    write(tmp_path / "chat.jsonl", placed([values[number % len(values)] for number in range(60)]))
    emitted(tmp_path, recipe(split={"time": "at"}), monkeypatch).main()


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_times_of_several_units_are_rewritten_by_a_command(tmp_path: Path, kind: str) -> None:
    times = [SECONDS, THOUSANDTHS, 3, 1_700_000_000_123_456, 100_000_000]
    at = [{"prompt": f"Why {n}?", "completion": "So.", "at": time} for n, time in enumerate(times * 8)]
    file = tmp_path / f"chat.{kind}"
    write(file, at) if kind == "jsonl" else file.write_text(
        "prompt,completion,at\n" + "".join(f"{row['prompt']},So.,{row['at']}\n" for row in at)
    )
    made = recipe(train=file.name, split={"time": "at"})
    (found,) = [one for one in compiled(tmp_path, made).diagnostics if one.code[0] == "E"]
    (command,) = re.findall(r"^rewrite them in seconds: `(.*)`$", "\n".join(found.help), re.MULTILINE)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    made = with_key(made, "data.train", f"chat.new.{kind}")
    assert [one for one in compiled(tmp_path, made).diagnostics if one.code[0] == "E"] == []
    text = (tmp_path / f"chat.new.{kind}").read_text()
    assert all(f"{time}" in text for time in ("1700000000.0", "1700000000.123", "1700000000.123456", "100000000.0"))
