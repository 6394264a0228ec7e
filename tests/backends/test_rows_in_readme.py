"""What a bundle's README.md says that a stage learns of its rows, and what becomes of thoughts in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, CHAT, Tables, good, texts, with_key

LORA = BASES["lora-single"]
TEXT = [{"text": f"Chapter {n}. Once upon a time."} for n in range(8)]
TOKENS = [{"input_ids": [5, 6, n], "labels": [-100, 6, n]} for n in range(8)]
PAIRS = [{"prompt": f"Why {n}?", "completion": f"Because of {n}."} for n in range(8)]
THINKING = [{"prompt": f"Why {n}?", "completion": f"<think>Hm.</think>Because of {n}."} for n in range(8)]
FIELDS = [
    {"messages": [row["messages"][0], row["messages"][1] | {"reasoning_content": "Hm."}]} for row in CHAT
]  # thoughts in fields of their own


def readme(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> str:
    """The README.md of supervised fine-tuning on the rows, which are read whole."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data: Tables = {"train": "rows.jsonl", "max_length": 64, **keys}
    return texts(good(folder, LORA | {"data": data}))["README.md"]


@pytest.mark.parametrize(
    ("rows", "keys", "said"),
    [
        (TEXT, {}, "It learns every token of the text."),
        (TOKENS, {}, "It learns the tokens whose label is not -100, and of rows without labels every token."),
        (CHAT, {}, "It learns the answers, not the questions."),
        (
            CHAT,
            {"loss_on": "last-answer"},
            "It learns the answers, not the questions; of a conversation it learns only the last answer.",
        ),
    ],
    ids=["text", "tokens", "chat", "last answer"],
)
def test_what_is_learned_follows_from_the_rows(
    tmp_path: Path, rows: list[dict[str, Any]], keys: dict[str, Any], said: str
) -> None:
    assert said in readme(tmp_path, rows, **keys)


@pytest.mark.parametrize(
    ("rows", "reasoning", "said"),
    [
        (PAIRS, None, ""),
        (PAIRS, "keep", ""),
        (PAIRS, "strip", ""),
        (PAIRS, "off", "every answer is trained in the mode without thinking"),
        (THINKING, None, "thoughts before answers are trained with them"),
        (THINKING, "keep", "thoughts before answers are trained with them"),
        (THINKING, "template", "thoughts before answers are trained where the chat template shows them"),
        (THINKING, "strip", "thoughts before answers are left out."),
        (FIELDS, "strip", "thoughts before answers are left out."),
        (THINKING, "off", "thoughts before answers are left out; every answer is trained in the mode without thinking"),
    ],
)
def test_what_becomes_of_thoughts_is_told_where_rows_hold_some(
    tmp_path: Path, rows: list[dict[str, Any]], reasoning: str | None, said: str
) -> None:
    data = next(
        line
        for line in readme(tmp_path, rows, **({"reasoning": reasoning} if reasoning else {})).splitlines()
        if line.startswith("- Data:")
    )
    assert said in data and "carry" not in data
    assert ("thought" in data) == bool(said)


def test_of_rows_that_were_not_read_the_condition_is_told(tmp_path: Path) -> None:
    data = {"train": {"hub": "org/rows"}, "format": "chat", "examples": 900, "tokens_per_example": 50}
    recipe = with_key(LORA | {"data": data}, "data.reasoning", "strip")
    assert "where answers begin with thoughts, they are left out" in texts(good(tmp_path, recipe))["README.md"]
