"""What the shim noted of a training and of an evaluation, held to the plan and to the prepared rows."""

from __future__ import annotations

from typing import Any

import pytest
from emitted import built

from recipec.verify.bundle import read_bundle
from recipec.verify.seen import (
    batch_problems,
    evaluated_problems,
    flag_problems,
    kept_arguments,
    setting_problems,
    step_problems,
)

SFT = read_bundle(built("sft-lora")).last
DPO = read_bundle(built("dpo")).last
KTO = read_bundle(built("kto")).last
PACKED = read_bundle(built("packed")).last
ROW, OTHER = [[1, 2, 3, 4], [0, 0, 1, 1]], [[1, 5, 6, 7], [0, 0, 0, 1]]
STEPS = {"count": 6, "decay": [0.0, 0.01], "beta2": [0.999], "largest_norm": 1.0}


def test_settings_that_change_once_they_are_built_are_found() -> None:
    planned = {"weight_decay": 0.01, "report_to": "tensorboard", "max_steps": 6}
    seen: dict[str, Any] = {"changed": {}, "values": {"weight_decay": 0.01, "report_to": ["tensorboard"]}}
    assert setting_problems(seen, planned) == []
    (other,) = setting_problems(seen | {"values": {"weight_decay": 0.0}}, planned)
    assert other == "weight_decay is 0.0 while it trains, the plan says 0.01"
    (changed,) = setting_problems(
        seen | {"changed": {"max_grad_norm": ["1.0", "0.0"], "fsdp_plugin_args": ["", "{}"]}}, {}
    )
    assert changed.startswith("max_grad_norm becomes 0.0 when it was built as 1.0: set it in training_config")
    options = {"model_init_kwargs": ["{'dtype': 'bfloat16'}", "None"]}  # train.py hands them to from_pretrained
    assert not list(setting_problems(seen | {"changed": options}, {}))
    (other,) = setting_problems(seen | {"changed": {"model_init_kwargs": ["{}", "{'dtype': 'float16'}"]}}, {})
    assert other.startswith("model_init_kwargs becomes {'dtype': 'float16'}")


def test_what_a_substitution_changes_is_not_compared() -> None:
    assert "learning_rate" in kept_arguments(SFT, {})
    own = {"script-arguments": {"train.py": {"learning_rate": 1.0}}, "arguments": {"seed": 1}}
    assert not {"learning_rate", "seed"} & kept_arguments(SFT, own).keys()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"count": 0}, "no optimizer made a step"),
        ({"decay": [0.0]}, "the weight decay of the optimizer is [0.0], the plan says 0.01"),
        ({"beta2": [0.9]}, "beta2 of the optimizer is [0.9]"),
        ({"largest_norm": 1.5}, "gradients of norm 1.5 reach the optimizer, the plan clips at 1.0"),
    ],
)
def test_steps_that_decay_or_clip_otherwise_are_found(changed: dict[str, Any], words: str) -> None:
    problems = step_problems(SFT, STEPS | changed)
    assert bool(problems) is bool(words) and "".join(problems).startswith(words)


@pytest.mark.parametrize(
    ("sequence", "words"),
    [
        (ROW, ""),
        ([[1, 2, 3, 4], [1, 0, 1, 1]], ""),  # no token foretells the first
        ([[1, 2, 3, 4], [0, 2, 2, 0]], "and 2 have the label of another token"),
        ([[1, 2, 3, 4], [0, 1, 1, 1]], "of which 3 are learned"),
        ([[1, 2, 3], [0, 0, 1]], "are no row of train.jsonl"),
    ],
)
def test_a_batch_of_other_tokens_or_labels_is_found(sequence: list[list[int]], words: str) -> None:
    seen = {"batches": [[OTHER, sequence]], "inputs": [], "rows": {"train": [[ROW], [OTHER]]}}
    problems = batch_problems(SFT, seen)
    assert bool(problems) is bool(words) and words in "".join(problems)


def test_the_better_answers_come_first_in_a_batch() -> None:
    rows = {"train": [[ROW, OTHER]]}
    assert batch_problems(DPO, {"batches": [[ROW, OTHER]], "inputs": [], "rows": rows}) == []
    (problem,) = batch_problems(DPO, {"batches": [[OTHER, ROW]], "inputs": [], "rows": rows})
    assert problem.startswith("2 of 2 sequences")


def test_packed_sequences_are_parts_of_rows() -> None:
    rows = {"train": [[ROW], [OTHER]]}
    cut = [[2, 3, 4], [0, 1, 1]]
    assert batch_problems(PACKED, {"batches": [[cut, OTHER]], "inputs": [], "rows": rows}) == []
    assert batch_problems(PACKED, {"batches": [[[[2, 4, 3], [0, 1, 1]]]], "inputs": [], "rows": rows})


@pytest.mark.parametrize(
    ("given", "words"), [([True, False], ""), ([True, True], "1 of 2 answers have the other label")]
)
def test_labels_that_are_not_those_of_the_rows_are_found(given: list[bool], words: str) -> None:
    rows = {"rows": {"train": [[ROW], [OTHER]]}, "flags": {"train": [True, False]}}
    problems = [*flag_problems(KTO, rows | {"batches": [[ROW, OTHER], [ROW]], "given_flags": [given, [True]]})]
    assert bool(problems) is bool(words) and words in "".join(problems)
    assert not [*flag_problems(DPO, rows | {"batches": [[ROW, OTHER]], "given_flags": [None]})]


EVALUATED = {"training": 0, "sampled": 0, "sequences": [ROW[0], OTHER[0]], "asked": [[1, 2], [1, 5, 6]]}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"training": 3}, "a model is evaluated as in training, with dropout"),
        ({"sampled": 1}, "answers are drawn by chance"),
        ({"sequences": [ROW[0], [1, 5]]}, "1 of 2 held-out sequences are not scored whole"),
        ({"sequences": [ROW[0], OTHER[0], [9]]}, "1 sequences are scored that are no held-out row"),
        ({"asked": [[1, 2], [1, 5]]}, "1 of 2 questions do not reach up to where the answer"),
    ],
)
def test_an_evaluation_of_other_rows_or_with_chance_is_found(changed: dict[str, Any], words: str) -> None:
    problems = list(evaluated_problems(SFT, EVALUATED | changed, [[ROW], [OTHER]]))
    assert bool(problems) is bool(words) and words in "".join(problems)
