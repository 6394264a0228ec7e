"""The rows of the axes name each other rightly: what one says of another holds."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from recipec.axes import (
    ADAPTATIONS,
    BASES,
    KINDS,
    METHODS,
    OFFLOADS,
    ROW_FORMATS,
    SECTIONS,
    STRATEGIES,
    families,
    meant_by,
    stages_of,
    tasks,
)
from recipec.axes.tasks import SHARED_TASKS
from recipec.recipe.foreign import KEYS
from recipec.recipe.reference import entries
from recipec.rules.unbuilt import UNBUILT


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_a_method_names_rows_that_are_there(row) -> None:
    assert set(row.formats) <= ROW_FORMATS.keys()
    assert set(row.adaptations) <= ADAPTATIONS.keys()
    assert set(row.preferred) <= set(row.adaptations)
    assert set(row.after) <= METHODS.keys()
    assert row.section in SECTIONS


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_a_trainer_reads_what_its_formats_become(row) -> None:
    assert set(row.kinds) <= KINDS.keys()
    for name in row.formats:
        assert {ROW_FORMATS[name].kind, ROW_FORMATS[name].unrolled} & set(row.kinds)


@pytest.mark.parametrize("row", ROW_FORMATS.values(), ids=ROW_FORMATS)
def test_rows_with_several_answers_can_be_told_apart(row) -> None:
    assert not row.unrolled or (row.unrolled in KINDS and row.answers != 1)


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_a_method_says_why_it_does_without_an_adaptation(row) -> None:
    assert bool(row.adaptations_because) == (set(row.adaptations) != ADAPTATIONS.keys())


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_a_reference_can_be_had_from_every_adaptation(row) -> None:
    able = [ADAPTATIONS[name].reference for name in row.adaptations]
    assert not row.has_reference or all(able)


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_a_number_of_a_method_has_bounds_and_its_default_lies_within(row) -> None:
    assert all(own.allows(own.value) for own in row.own)


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_what_a_value_changes_of_a_row_is_there(row) -> None:
    for own in row.own:
        for value, fields in own.changes.items():
            assert own.allows(value)
            changed = row.under({own.name: value})
            assert {name: getattr(changed, name) for name in fields} == fields


def test_a_row_is_as_the_values_of_its_own_hyperparameters_have_it() -> None:
    (alone,) = METHODS["sft"].passes
    beta, loss = METHODS["dpo"].own
    row = replace(METHODS["dpo"], own=(beta, replace(loss, changes={"ipo": {"passes": (alone,), "packs": "examples"}})))
    assert row.under({loss.name: "ipo", "learning_rate": 1e-6}).passes == (alone,)
    assert row.under({loss.name: "hinge"}) is row.under({}) is row
    assert replace(row, own=(beta, replace(row.own[1], value="ipo"))).under({}).single_pass


@pytest.mark.parametrize("row", ROW_FORMATS.values(), ids=ROW_FORMATS)
def test_rows_of_every_format_are_for_a_method(row) -> None:
    assert row.name in METHODS[row.usual].formats
    assert row.kind in KINDS


def test_a_task_of_several_methods_has_a_meaning_of_its_own() -> None:
    shared = {task for task, count in Counter(row.task for row in METHODS.values()).items() if count > 1}
    assert shared <= SHARED_TASKS.keys() <= tasks().keys()


def test_what_goes_before_a_method_is_a_stage_of_its_task() -> None:
    for row in METHODS.values():
        assert {*row.after, row.name} <= {stage.name for stage in stages_of(row.task)}


def test_every_adaptation_can_be_asked_for() -> None:
    reachable = {row.name for value in families() for row in meant_by(value)}
    assert reachable == {row.name for row in ADAPTATIONS.values() if not row.asked_in}
    assert {row.base for row in ADAPTATIONS.values()} == BASES.keys()
    pairs = [(row.family, row.base) for row in ADAPTATIONS.values()]
    assert len(pairs) == len(set(pairs))


def test_strategies_offload_what_train_offload_can_say() -> None:
    assert {value for row in STRATEGIES.values() for value in row.offloads} == OFFLOADS.keys() - {"none"}


def test_a_word_of_what_is_not_built_means_nothing_else() -> None:
    words = Counter(word for row in UNBUILT for word in row.words)
    built = {*KEYS, *(entry.name for entry in entries().values()), *METHODS, *STRATEGIES, *ADAPTATIONS, *ROW_FORMATS}
    assert not built & words.keys()
    assert set(words.values()) == {1}
    assert all(word == word.lower().replace("-", "_") for word in words)
