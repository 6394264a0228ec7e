"""prepare_data.py counts the rows that call tools which nothing in them names, as W0557 does of the sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import codes, compiled
from test_carried import CALL, TOOL, asked, recipe, said, tokenizer_of
from test_prepare_data import emitted, write

pytestmark = pytest.mark.executes
SILENT = asked("Is it warm?", said("", tool_calls=[CALL]))
BEGINNING = [asked(f"Go {n}", said("", tool_calls=[CALL]), tools=[TOOL]) for n in range(20)]


def reported(folder: Path, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    script = emitted(folder, recipe(), monkeypatch)
    tokenizer = tokenizer_of(BEGINNING)
    tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    write(folder / "chat.jsonl", rows)
    script.main()
    (report,) = folder.rglob("report.json")
    return json.loads(report.read_text())["train"]


@pytest.mark.parametrize(
    ("row", "unnamed"),
    [
        (SILENT, True),
        (asked("Call weather().", said("", tool_calls=[CALL])), False),
        (asked("Is the weathermap warm?", said("", tool_calls=[CALL])), True),
        (asked("Is it warm?", said("", tool_calls=[CALL]), tools=[TOOL]), False),
    ],
    ids=["silent", "named", "within a word", "with tools"],
)
def test_every_row_is_judged_as_the_sample_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], row: Any, unnamed: bool
) -> None:
    write(tmp_path / "chat.jsonl", BEGINNING)
    twice = row | {"messages": row["messages"] * 2}
    assert reported(tmp_path, [*BEGINNING, row, twice], monkeypatch)["unnamed_tools"] == 2 * unnamed
    told = "2 rows call a tool that nothing in them names; the first is chat.jsonl, line 21, which calls 'weather'"
    assert (told in capsys.readouterr().out) is unnamed
    write(tmp_path / "chat.jsonl", [*BEGINNING, row])
    assert ("W0557" in codes(compiled(tmp_path, recipe(), only_plan=True))) is unnamed
