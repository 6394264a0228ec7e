"""The reference of the language: fresh, complete, and as `recipec explain` prints it."""

from __future__ import annotations

import tomllib

import pytest
from click.testing import CliRunner

from recipec.axes import METHODS
from recipec.cli.group import recipec
from recipec.recipe.foreign import NAMES
from recipec.recipe.json_schema import WITHOUT
from recipec.recipe.reference import WRITTEN, absent, entries, kind, page, page_of, reference
from recipec.rules import RULES

KEYS = [entry for entry in entries().values() if not entry.is_table]


def test_the_committed_reference_is_fresh() -> None:
    assert WRITTEN.read_text(encoding="utf-8") == reference(), "run python -m recipec.recipe.reference"


@pytest.mark.parametrize("entry", KEYS, ids=[entry.path for entry in KEYS])
def test_every_key_says_what_it_takes_and_what_its_absence_means(entry) -> None:
    assert kind(entry.node) and absent(entry)
    (example,) = [line for line in page(entry).splitlines() if line.startswith("- Example: ")]
    assert entry.name in tomllib.loads(example.removeprefix("- Example: ").strip("`"))


@pytest.mark.parametrize("entry", entries().values(), ids=list(entries()))
def test_a_description_says_enough_for_an_editor(entry) -> None:
    described = entry.node["description"].partition(WITHOUT)[0].partition("\n\n- ")[0]  # without its values
    assert len(described.split()) >= 8 and described.endswith(".")


def test_every_key_of_a_rule_is_in_it() -> None:
    keys = {rule.key for rule in RULES.values() if rule.key}
    assert keys and keys <= entries().keys()


def test_a_rule_says_what_an_absent_key_means() -> None:
    assert "`recipec explain DATA-002`" in absent(entries()["train.packing"])
    assert absent(entries()["goal.task"]) == "none, every recipe needs it"
    assert absent(entries()["hardware.nodes"]) == "`1`"


@pytest.mark.parametrize("name", ["train.packing", "packing", "train.sft.packing", "TRAIN.PACKING"])
def test_a_key_is_found_by_its_path_its_name_and_in_the_table_of_a_stage(name: str) -> None:
    found = page_of(name)
    assert found and found[0] == "train.packing"


def test_the_keys_of_a_source_are_those_of_any_source() -> None:
    found = page_of("data.eval.weight")
    assert found and found[0] == "data.train.weight"


def test_explain_prints_the_page_of_a_key_and_of_a_table() -> None:
    run = CliRunner().invoke(recipec, ["explain", "hardware.gpus_per_node"])
    assert run.exit_code == 0 and "at least 1 and at most 8" in run.output
    run = CliRunner().invoke(recipec, ["explain", "[budget]"])
    assert run.exit_code == 0 and "`max_hours`" in run.output


def test_a_misspelt_key_is_answered_with_the_key() -> None:
    run = CliRunner().invoke(recipec, ["explain", "train.pakcing"])
    assert run.exit_code == 2 and "train.packing" in run.output


def test_a_key_says_what_other_tools_call_it() -> None:
    lines = page(entries()["data.max_length"]).splitlines()
    assert {"- In TRL: `max_length`", "- In axolotl: `sequence_len`", "- In LLaMA-Factory: `cutoff_len`"} <= set(lines)


def test_a_key_of_several_methods_has_the_names_of_all() -> None:
    lines = page(entries()["alignment.beta"]).splitlines()
    assert {"- In TRL: `beta`", "- In axolotl: `rl_beta`, `orpo_alpha`, `kd_beta`"} <= set(lines)


@pytest.mark.parametrize("key", ["label_weight", "nll_weight", "gamma"])
def test_an_argument_of_a_trainer_that_bundles_bring_is_no_name_of_trl(key: str) -> None:
    named = [line for line in page(entries()[f"alignment.{key}"]).splitlines() if line.startswith("- In ")]
    assert named and not any(f"`{key}`" in line for line in named)


def test_every_key_that_is_pointed_to_is_there() -> None:
    assert {row.key for row in NAMES} <= entries().keys()
    assert len({row.key for row in NAMES}) == len(NAMES)


def test_the_table_of_every_stage_has_a_page() -> None:
    for name in METHODS:
        assert f"train.{name}" in entries()
