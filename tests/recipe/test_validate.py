"""The schema's verdicts in plain words, over every key of the language."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from recipec.diagnostics.human import human
from recipec.diagnostics.model import Report
from recipec.recipe.document import parse
from recipec.recipe.locate import KeyPath
from recipec.recipe.schema_keys import keys_of
from recipec.recipe.source import Source
from recipec.recipe.validate import validate
from recipes import BASE, codes, findings, load

# Words of the validation library that must not reach a user.
LEAKS = re.compile(
    r"(?i)input|pydantic|should be|valid |literal|NoneType|\bdict\b|\bint\b|\bbool\b|constrained|\[key\]"
)


def keys(table: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every key of the language."""
    for name, field in keys_of(table).items():
        path = (*table, name)
        nested = keys_of(path)
        is_table = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        if not is_table:
            yield path
        if is_table or name == "split":
            yield from (inner for inner in keys(path) if nested)


ALL_KEYS = list(keys())
WRONG = [
    "{}",
    "[]",
    "[[]]",
    "[{}]",
    "1979-05-27",
    "nan",
    "-1",
    "1e99",
    "true",
    '""',
    '"no such value"',
    "[1]",
    "{a = 1}",
]


def verdict(path: KeyPath, value: str) -> Report:
    """Validate a recipe that consists of one key."""
    text = f"{'.'.join(map(str, path))} = {value}\n"
    report = Report()
    document = parse(Source(Path("recipe.toml"), "recipe.toml", text), report)
    assert document
    validate(document, report)
    return report


@pytest.mark.parametrize(
    ("table", "line", "help"),
    [
        ("train", "warmup = 10", "a share of the steps: 10 steps of all are 10 divided by their number"),
        ("train", "save_every = 100", "`train.max_steps` sets them"),
        ("train", "max_steps = 400\nsave_every = 100", "a share of the steps: 100 of 400 steps are 0.25"),
        ("train", "max_steps = 400\nsft.warmup = 20", "a share of the steps: 20 of 400 steps are 0.05"),
        ("data", "examples = 5_000\neval_fraction = 200", "a share of the rows: 200 of 5,000 rows are 0.04"),
        ("data", "test_fraction = 200", "a share of the rows: 200 rows of all are 200 divided by their number"),
    ],
)
def test_a_number_where_a_share_is_asked_is_told_as_one(tmp_path: Path, table: str, line: str, help: str) -> None:
    text = BASE.replace("[data]", f"[data]\n{line}") if table == "data" else f"{BASE}[{table}]\n{line}\n"
    (found,) = findings(tmp_path, recipe=text).diagnostics
    assert found.code == "E0205" and help in " ".join(found.help)


PER_EPOCH = "for 4 evaluations per epoch, set `train.eval_every"


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("epochs = 3\nevals_per_epoch = 4", f"{PER_EPOCH} = 0.0833`: 1 / (4 x 3 epochs)"),
        ("evals_per_epoch = 4", f"{PER_EPOCH}` to 1 / (4 x `train.epochs`), for example 0.0833 for 3 epochs"),
        ("epochs = 2\nsaves_per_epoch = 1", "for 1 checkpoint per epoch, set `train.save_every = 0.5`"),
        ("epochs = 3\neval_every = 4", f"{PER_EPOCH} = 0.0833`: 1 / (4 x 3 epochs)"),
        ("epochs = 1\neval_every = 1", "for 1 evaluation per epoch, set `train.eval_every` to 1 / (1 x"),
        ("saves_per_epoch = false", "set `train.save_every`, a share of the steps"),
    ],
)
def test_counts_per_epoch_are_told_as_a_share_of_the_steps(tmp_path: Path, line: str, help: str) -> None:
    (found,) = findings(tmp_path, recipe=f"{BASE}[train]\n{line}\n").diagnostics
    assert help in " ".join(found.help)


@pytest.mark.parametrize("value", ["500", "2.5", "inf", "nan"])
def test_what_is_no_count_per_epoch_is_not_told_as_one(tmp_path: Path, value: str) -> None:
    (found,) = findings(tmp_path, recipe=f"{BASE}[train]\neval_every = {value}\n").diagnostics
    assert "per epoch" not in " ".join(found.help)


def test_a_share_below_0_is_no_number_of_steps(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, recipe=f"{BASE}[train]\nwarmup = -0.1\n").diagnostics
    assert found.help == ()


@pytest.mark.parametrize("path", ALL_KEYS, ids=".".join)
def test_a_wrong_value_gives_one_plain_error_at_its_place(path: KeyPath) -> None:
    for value in WRONG:
        report = verdict(path, value)
        found = [d for d in report.diagnostics if d.code != "E0201"]
        assert len(found) <= 1 + value.count("{"), (value, found)
        for diagnostic in found:
            said = " ".join([diagnostic.title, *(label.message for label in diagnostic.labels), *diagnostic.help])
            assert diagnostic.labels[0].place.span.line == 1
            assert diagnostic.labels[0].message or diagnostic.help, diagnostic
            assert not LEAKS.search(said.replace("no such value", "")), said
        assert human(report.diagnostics)


def test_every_key_refuses_a_date() -> None:
    accepted = [path for path in ALL_KEYS if {d.code for d in verdict(path, "1979-05-27").diagnostics} == {"E0201"}]
    assert accepted == []


def test_every_key_is_documented_and_accepts_its_examples() -> None:
    for path in ALL_KEYS:
        field = keys_of(path[:-1])[str(path[-1])]
        assert field.title and field.description and field.examples, path
        for example in field.examples:
            refused = [d for d in verdict(path, toml(example)).diagnostics if d.code != "E0201"]
            assert refused == [], (path, example)


def toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)


def test_whole_numbers_are_numbers_and_truth_values_are_not(tmp_path: Path) -> None:
    loaded = load(tmp_path, recipe=BASE + "[train]\nepochs = 3\n")
    assert math.isclose(loaded.recipe.train.epochs, 3.0)
    assert codes(tmp_path, recipe=BASE + "[train]\nepochs = true\n") == ["E0202"]


def test_absent_keys_are_none_and_absent_tables_empty(tmp_path: Path) -> None:
    recipe = load(tmp_path, recipe=BASE).recipe
    assert recipe.train.learning_rate is None
    assert recipe.train.continue_pretrain.lora.rank is None
    assert recipe.track.to is None


def test_data_is_a_list_of_sources_however_it_is_written(tmp_path: Path) -> None:
    for written in ('"a"', '{path = "a"}', '["a"]', '[{path = "a"}]'):
        loaded = load(tmp_path, recipe=BASE.replace('"train.jsonl"', written))
        assert [source.path for source in loaded.recipe.data.train] == ["a"]


def test_errors_of_the_schema_and_contradictions_come_together(tmp_path: Path) -> None:
    recipe = BASE + '[train]\nlearning_rate = "fast"\nepochs = 1\nmax_steps = 2\n'
    assert codes(tmp_path, recipe=recipe) == ["E0202", "E0401"]


def test_a_refused_value_is_not_called_missing_as_well(tmp_path: Path) -> None:
    recipe = BASE.replace('gpu = "h100"', "gpu = 100").replace('train = "train.jsonl"', "train = 5")
    assert codes(tmp_path, recipe=recipe) == ["E0202", "E0202"]


def test_a_missing_table_is_asked_for_at_the_first_one(tmp_path: Path) -> None:
    text = BASE.replace('[goal]\ntask = "instruct"\n', "")
    (diagnostic,) = findings(tmp_path, recipe=text).diagnostics
    assert diagnostic.labels[0].place.span[:2] == (1, 1)
    assert diagnostic.help[0] == "write `[goal]`, and `task` below it"


def test_what_stands_in_a_misspelled_table_is_told_in_the_same_round(tmp_path: Path) -> None:
    text = BASE.replace("[goal]\ntask", "[gaol]\ntsak").replace('"instruct"', '"instrct"')
    found = findings(tmp_path, recipe=text).diagnostics
    assert [(one.code, one.labels[0].place.span.line) for one in found] == [("E0203", 3), ("E0203", 4), ("E0204", 4)]


def test_a_key_that_would_have_a_value_of_another_type_is_not_taken_for_meant(tmp_path: Path) -> None:
    found = findings(tmp_path, recipe=BASE + "[train]\nlearning_rte = 'fast'\n").diagnostics
    assert [one.code for one in found] == ["E0203"]
