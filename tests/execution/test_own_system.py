"""A row whose own system prompt is the recipe's: it is written once, and the build counts such rows as prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import compiled, with_key
from test_leaks import recipe, report_of
from test_prepare_data import chats, emitted, write
from test_splits import UNMARKED, split_of

pytestmark = pytest.mark.executes

KIND = {"role": "system", "content": "Be kind."}


@pytest.mark.parametrize("column", [False, True], ids=["message", "column"])
@pytest.mark.parametrize("each", [False, True], ids=["marked", "each answer a row"])
def test_a_system_prompt_that_equals_the_recipes_is_the_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: bool, each: bool
) -> None:
    """No conflict and written once; a row that differs in it alone is a duplicate, and asks nothing by itself."""

    def kind(turns: list[dict[str, Any]]) -> dict[str, Any]:
        return {"messages": turns, "system": KIND["content"]} if column else {"messages": [KIND, *turns]}

    repeated = [kind(row["messages"]) for row in chats(20)]
    unasked = [kind([{"role": "assistant", "content": "Well."}])]
    both = [{"messages": [KIND, *chats(61)[-1]["messages"]], "system": KIND["content"]}]
    write(tmp_path / "chat.jsonl", [*chats(60), *repeated, *unasked, *both])
    made = recipe(system=KIND["content"], opening_answers="learn")
    made = with_key(made, "model.name", UNMARKED) if each else made
    titles = {one.code: one.title for one in compiled(tmp_path, made).diagnostics}
    emitted(tmp_path, made, monkeypatch).main()
    found = [row.get("messages") or row["prompt"] for rows in split_of(tmp_path).values() for row in rows]
    assert len(found) == 61 and all(turns[0] == KIND and KIND not in turns[1:] for turns in found)
    report = report_of(tmp_path)["train"]
    assert (report["duplicates"], report["empty"]) == (20, 1)
    assert titles["W0553"] == "20 of 82 sampled rows of data.train are exact duplicates of others"
    assert titles["W0542"] == "1 of 82 sampled rows of data.train ask nothing"
