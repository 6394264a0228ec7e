"""prepare_data.py puts rows from easy to hard, by their length or by a column, and the trainer keeps that order."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from compiling import BASES, Tables, good, texts, with_key
from test_prepare_data import chats, emitted, number, pairs, prepared, write

pytestmark = pytest.mark.executes


def ordered(base: str, table: Tables) -> Tables:
    return with_key(with_key(BASES[base], "train.curriculum", table), "data.examples", 200)


def parts_of(values: list[float], count: int) -> list[list[float]]:
    size = -(-len(values) // count)
    return [values[start : start + size] for start in range(0, len(values), size)]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_column_orders_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_text: bool) -> None:
    hard = {n: n * 7919 % 200 / 10 for n in range(200)}
    rows = [row | {"difficulty": str(hard[n]) if as_text else hard[n]} for n, row in enumerate(chats(200))]
    write(tmp_path / "chat.jsonl", rows)
    emitted(tmp_path, ordered("lora-single", {"column": "difficulty", "parts": 4}), monkeypatch).main()
    found = [hard[number(row)] for row in prepared(tmp_path, "sft/train")]
    parts = parts_of(found, 4)
    assert all(max(easy) < min(harder) for easy, harder in pairwise(parts))
    assert all(part != sorted(part) for part in parts), "inside a part the order is random"
    report = json.loads((tmp_path / "data" / "sft" / "report.json").read_text())
    assert report["train"]["hardest_of_parts"] == [max(part) for part in parts]
    assert (
        "difficulty" not in prepared(tmp_path, "sft/train")[0] and "hardness" not in prepared(tmp_path, "sft/eval")[0]
    )


def test_length_orders_the_rows_of_another_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row | {"chosen": "word " * (n * 17 % 40 + 2) + str(n)} for n, row in enumerate(pairs(200))]
    write(tmp_path / "pairs.jsonl", rows)
    recipe = ordered("dpo-full", {"by": "length"})
    emitted(tmp_path, recipe, monkeypatch).main()
    lengths = [len(str(row["chosen"]).split()) for row in prepared(tmp_path, "dpo/train")]
    assert all(max(easy) <= min(harder) for easy, harder in pairwise(parts_of(lengths, 10)))
    train = texts(good(tmp_path, recipe))["train.py"]
    assert 'train_sampling_strategy="sequential",  # the rows stand from easy to hard, in 10 parts' in train


def test_a_row_that_does_not_say_how_hard_it_is_is_refused_behind_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row | {"difficulty": n} for n, row in enumerate(chats(300))]
    write(tmp_path / "chat.jsonl", rows)
    module = emitted(tmp_path, ordered("lora-single", {"column": "difficulty"}), monkeypatch)
    write(tmp_path / "chat.jsonl", [*rows[:250], rows[250] | {"difficulty": None}, *rows[251:]])
    with pytest.raises(SystemExit, match=r"chat\.jsonl, line 251: `difficulty` holds None, which is no number"):
        module.main()


def test_held_out_files_need_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", [row | {"difficulty": n % 9} for n, row in enumerate(chats(200))])
    write(tmp_path / "held.jsonl", chats(230)[200:])
    recipe = with_key(ordered("lora-single", {"column": "difficulty"}), "data.eval", "held.jsonl")
    emitted(tmp_path, recipe, monkeypatch).main()
    assert len(prepared(tmp_path, "sft/eval")) == 30
