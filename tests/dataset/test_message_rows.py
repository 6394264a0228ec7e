"""Rows that are single messages: refused, with the command that makes a row of each conversation."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled

from recipec.dataset.message_rows import message_rows

Rows = list[dict[str, Any]]


def talks(talk: str, order: str, speaker: str, text: str, speakers: tuple[str, str] = ("user", "assistant")) -> Rows:
    """Conversations of four messages, each of which stands with the messages of another one in turn."""
    rows = [
        {talk: f"c{n}", order: turn, speaker: speakers[turn % 2], text: f"Message {n}.{turn} of some words."}
        for n in range(30)
        for turn in range(4)
    ]
    return rows[::2] + rows[1::2]


def written(folder: Path, rows: Rows, file: str) -> None:
    if file.endswith(".csv"):
        with (folder / file).open("w", newline="") as target:
            writer = csv.DictWriter(target, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))


def told(folder: Path, rows: Rows, file: str = "rows.jsonl", **keys: Any) -> tuple[str, ...]:
    """The help of E0305 for the rows; nothing where they are taken."""
    written(folder, rows, file)
    recipe = BASES["lora-single"] | {"data": {"train": file, **keys}}
    found = compiled(folder, recipe, only_plan=True).diagnostics
    assert not [one for one in found for line in one.help if "answers with" in line]
    return next((one.help for one in found if one.code == "E0305"), ())


@pytest.mark.parametrize(
    ("names", "speakers"),
    [
        (("conversation_id", "turn", "role", "content"), ("user", "assistant")),
        (("thread_id", "seq", "author", "body"), ("Customer", "Support agent")),
        (("ticket_id", "created_at", "author_role", "message_html"), ("customer", "agent")),
    ],
)
@pytest.mark.parametrize("file", ["rows.jsonl", "rows.csv"])
def test_messages_are_refused_with_what_groups_them(
    tmp_path: Path, names: tuple[str, str, str, str], speakers: tuple[str, str], file: str
) -> None:
    rows = talks(*names, speakers)
    if names[1] == "created_at":
        rows = [row | {"created_at": f"2026-01-0{row['created_at'] + 1} 10:00"} for row in rows]
    line, whole = told(tmp_path, rows, file)
    assert 'format = "text"' in whole
    subprocess.run(line.split("`")[-2], shell=True, cwd=tmp_path, check=True)
    made = tmp_path / "rows.new.jsonl"
    found = [json.loads(text)["messages"] for text in made.read_text().splitlines()]
    assert len(found) == 30
    assert [turn["role"] for turn in found[3]] == ["user", "assistant"] * 2
    assert [turn["content"] for turn in found[3]] == [f"Message 3.{turn} of some words." for turn in range(4)]


def test_of_other_speakers_the_user_says_who_the_assistant_is(tmp_path: Path) -> None:
    rows = talks("ticket_id", "created_at", "from_email", "body", ("ann@a.org", "desk@b.org"))
    line, _ = told(tmp_path, rows, columns={"text": "body"})
    assert "who of `from_email` is the assistant" in line and '"desk@b.org" (60)' in line
    command = line.split("`")[-2].replace("ASSISTANT", "desk@b.org")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    first = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[0])
    assert [turn["role"] for turn in first["messages"]] == ["user", "assistant"] * 2


def test_the_column_of_the_split_stays(tmp_path: Path) -> None:
    line, _ = told(tmp_path, talks("thread_id", "seq", "author", "body"), split={"group": "thread_id"})
    subprocess.run(line.split("`")[-2], shell=True, cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[2])["thread_id"] == "c2"


def test_messages_that_are_to_be_learned_alone_are_taken(tmp_path: Path) -> None:
    rows = talks("thread_id", "seq", "author", "body")
    assert not told(tmp_path, rows, format="text", columns={"text": "body"})


@pytest.mark.parametrize(
    "rows",
    [
        [{"user_id": f"u{n // 4}", "intent": ("refund", "order")[n % 2], "text": f"Text {n}."} for n in range(80)],
        [{"author_id": f"u{n // 4}", "author": f"Ann {n // 4}", "text": f"Text {n}."} for n in range(80)],
        [{"chat_id": f"u{n // 2}", "role": "user", "prompt": f"Why {n}?", "completion": "So."} for n in range(80)],
        [{"chat_id": f"u{n}", "role": ("user", "assistant")[n % 2], "text": f"Text {n}."} for n in range(80)],
    ],
    ids=["classes", "documents", "answers", "no id that repeats"],
)
def test_rows_of_other_kinds_are_no_messages(rows: Rows) -> None:
    assert message_rows(rows) is None


@pytest.mark.parametrize("beside", ["seq", "created_at", "position"])
def test_an_order_is_no_class(tmp_path: Path, beside: str) -> None:
    value = "2026-01-0{}" if beside == "created_at" else "{}"
    rows = [{"text": f"Text {n} of some words.", beside: value.format(1 + n % 5)} for n in range(60)]
    assert not told(tmp_path, rows)
