"""Rows that are tokens already: learned as their labels say, and refused where they cannot be those of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from test_carried import tokenizer_of
from test_prepare_data import emitted, prepared, write

pytestmark = pytest.mark.executes


def recipe(**data: Any) -> Tables:
    made = with_key(BASES["lora-single"], "data", {"train": "tokens.jsonl", **data})
    return with_key(made, "model.name", "Qwen/Qwen3-0.6B")


def rows(count: int = 40, **more: Any) -> list[dict[str, Any]]:
    ids = [[20 + n, 30, 31, 100 + n] for n in range(count)]
    return [{"input_ids": tokens, "labels": [-100, -100, *tokens[2:]], **more} for tokens in ids]


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch, given: list[dict[str, Any]], **data: Any) -> list[Any]:
    write(folder / "tokens.jsonl", given)
    script = emitted(folder, recipe(**data), monkeypatch)
    tokenizer = tokenizer_of(given)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    return [row for part in ("train", "eval", "test") for row in prepared(folder, f"sft/{part}")]


def test_tokens_and_labels_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepare(tmp_path, monkeypatch, rows())
    assert sorted((row["input_ids"], row["labels"]) for row in found) == sorted(
        (row["input_ids"], row["labels"]) for row in rows()
    )


def test_without_labels_every_token_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = prepare(tmp_path, monkeypatch, [{"input_ids": row["input_ids"]} for row in rows()])
    assert all(row["labels"] == row["input_ids"] for row in found)


def test_answers_to_the_same_tokens_are_on_one_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [{"input_ids": [40 + n, 41, k], "labels": [-100, -100, k]} for n in range(20) for k in (7, 8)]
    prepare(tmp_path, monkeypatch, given)
    parts = [{row["input_ids"][0] for row in prepared(tmp_path, f"sft/{part}")} for part in ("train", "eval", "test")]
    assert sum(map(len, parts)) == 20, "no prompt is in two parts"


def test_rows_whose_learned_tokens_are_cut_off_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = [{"input_ids": [50 + n, *range(20, 40), 9], "labels": [-100] * 21 + [9]} for n in range(1)]
    found = prepare(tmp_path, monkeypatch, [*rows(), *late], overflow="truncate", max_length=16)
    assert len(found) == 40


def test_tokens_of_another_tokenizer_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="jsonl, line 41: token 999999, and the model's tokenizer has"):
        prepare(tmp_path, monkeypatch, [*rows(), {"input_ids": [1, 999_999], "labels": [-100, 999_999]}])


def test_a_label_that_is_not_its_token_is_refused_behind_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [{"input_ids": [n, 5, 6], "labels": [-100, 5, 6]} for n in range(220)]
    with pytest.raises(SystemExit, match=r"tokens.jsonl, line 221: labels must be the token"):
        prepare(tmp_path, monkeypatch, [*given, {"input_ids": [1, 2], "labels": [-100, 3]}])


@pytest.mark.parametrize(
    ("ids", "mask", "kept"),
    [([7, 8, 9], [1, 1, 1], [7, 8, 9]), ([7, 8, 0, 0], [1, 1, 0, 0], [7, 8]), ([0, 7, 8, 0], [0, 1, 1, 0], [7, 8])],
    ids=["ones", "padded behind", "padded on both sides"],
)
def test_padding_is_taken_off_as_its_mask_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: list[int], mask: list[int], kept: list[int]
) -> None:
    """Every tokenizer writes a mask, and pads where it is told to."""
    labels = [token if seen else -100 for token, seen in zip(ids, mask, strict=True)]
    masked = [row | {"attention_mask": [1] * 4} for row in rows()]
    found = prepare(tmp_path, monkeypatch, [*masked, {"input_ids": ids, "attention_mask": mask, "labels": labels}])
    assert [row["labels"] for row in found].count(kept) == 1
    assert [row["input_ids"] for row in found].count(kept) == 1


HIDDEN: dict[str, tuple[list[int], list[Any], list[int] | None]] = {
    "a hole": ([7, 8, 9], [1, 0, 1], None),
    "two tokens": ([7, 8, 5, 6], [1, 1, 0, 0], None),
    "learned padding": ([7, 8, 0], [1, 1, 0], [7, 8, 0]),
    "nothing": ([7, 8], [0, 0], None),
    "another length": ([7, 8], [1], None),
    "lists": ([7, 8], [[1], [1]], None),
    "truths": ([7, 8], [True, True], None),
    "fractions": ([7, 8], [1.0, 1.0], None),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_a_mask_that_hides_more_than_padding_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """When the bundle is built, and behind the sample."""
    ids, mask, labels = HIDDEN[what]
    bad = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    write(tmp_path / "tokens.jsonl", [*rows(), bad])
    (error,) = [found for found in compiled(tmp_path, recipe()).diagnostics if found.code[0] == "E"]
    assert (error.code, error.title) == ("E0304", "`tokens.jsonl:41` cannot be used")
    write(tmp_path / "tokens.jsonl", rows())
    script = emitted(tmp_path, recipe(), monkeypatch)
    write(tmp_path / "tokens.jsonl", [*rows(), bad])
    with pytest.raises(SystemExit, match=r"tokens\.jsonl, line 41: attention_mask"):
        script.main()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("template", "chatml", "`data.template` has no effect on token-ids rows"),
        ("train", {"path": "tokens.jsonl", "columns": {"messages": "m"}}, "`columns.messages` of tokens.jsonl says"),
        (
            "train",
            {"path": "tokens.jsonl", "columns": {"labels": "m"}},
            "`columns.labels` of tokens.jsonl says nothing",
        ),
    ],
)
def test_keys_without_effect_on_tokens_are_refused(tmp_path: Path, key: str, value: object, said: str) -> None:
    write(tmp_path / "tokens.jsonl", [{"input_ids": row["input_ids"]} for row in rows()])
    (error,) = [one for one in compiled(tmp_path, recipe(**{key: value})).diagnostics if one.code[0] == "E"]
    assert error.title.startswith(said)
