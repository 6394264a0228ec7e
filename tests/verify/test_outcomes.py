"""What counts as a run that was planned, as learning, and as the same weights."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from emitted import built, copy_of
from msgspec.structs import replace

from recipec.axes import METHODS, Method
from recipec.axes import method as rows
from recipec.verify.bundle import Bundle, read_bundle
from recipec.verify.evaluated import evaluation_problems, lost_in_rounding, unchanged_problems
from recipec.verify.learn import half_written, rows_by_step, write_training_only
from recipec.verify.learn_checks import (
    PROOFS,
    UnknownProof,
    epoch_problems,
    logit_problems,
    loss_halves,
    proofs_of,
    row_problems,
    weight_problems,
)
from recipec.verify.report import VerifyReport
from recipec.verify.run import (
    expected_facts,
    fact_problems,
    guessing_problems,
    learned_problems,
    log_history,
    loss_problems,
    saved_problems,
    type_problems,
    undefined_metrics,
)
from recipec.verify.scores import score_problems
from recipec.verify.steps import check_steps, rate_problems
from recipec.verify.substitutions import Situation, substitutions


def test_every_proof_that_a_row_may_name_is_a_check() -> None:
    assert set(rows.PROOFS) == PROOFS.keys()


FACTS = {
    "distributed": "fsdp",
    "world_size": 2,
    "global_batch_size": 16,
    "sharded_parameters": "27 of 27",
    "recomputed_layers": "2 of 2",
    "trainable_tensors": 27,
    "trains_in": "float32",
    "trained_tokens": 900,
    "rows": 129,
}
WRONG = [
    ({}, "missing or empty"),
    (FACTS | {"distributed": "ddp"}, "distributed is ddp, not fsdp"),
    (FACTS | {"world_size": 1}, "world_size is 1, not 2"),
    (FACTS | {"global_batch_size": 8}, "global_batch_size is 8, not 16"),
    (FACTS | {"sharded_parameters": "0 of 27"}, "none of 27 parameters is sharded"),
    (FACTS | {"recomputed_layers": "0 of 2"}, "recomputed_layers is 0 of 2, not 2"),
    (FACTS | {"trains_in": "bfloat16, float32"}, "trains_in is bfloat16, float32, not float32"),
    (FACTS | {"trainable_tensors": 0}, "trainable_tensors is 0"),
    (FACTS | {"trained_tokens": 0}, "trained_tokens is 0"),
    ({name: value for name, value in FACTS.items() if name != "rows"}, "rows is None"),
]


BUNDLE = read_bundle(built("fsdp"))


def test_the_planned_run_is_accepted() -> None:
    assert fact_problems(FACTS, BUNDLE, BUNDLE.last, 2) == []


@pytest.mark.parametrize(("facts", "words"), WRONG)
def test_another_run_is_not(facts: dict[str, Any], words: str) -> None:
    problems = fact_problems(facts, BUNDLE, BUNDLE.last, 2)
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(("every", "fact"), [(0, "0 of 3"), (1, "3 of 3"), (2, "2 of 3"), (4, "1 of 3")])
def test_the_planned_layers_are_recomputed_in_a_model_of_any_depth(every: int, fact: str) -> None:
    stage = BUNDLE.last
    planned = replace(stage, choice={**stage.choice, "recompute_every": every})
    assert fact_problems(FACTS | {"recomputed_layers": fact}, BUNDLE, planned, 2) == []
    assert fact_problems(FACTS | {"recomputed_layers": "4 of 3"}, BUNDLE, planned, 2) != []


def test_facts_follow_the_substitutions() -> None:
    bundle = read_bundle(built("pretrain"))
    assert bundle.last.choice["global_batch_size"] == 128
    assert expected_facts(bundle, bundle.last, 1)["global_batch_size"] == 32


def test_stages_of_different_batches_share_one_limit() -> None:
    """accelerate reads one number: it is that of the stage with the largest micro batch."""
    bundle = read_bundle(built("sft-dpo"))
    first, last = bundle.stages
    small = replace(first, choice={**first.choice, "micro_batch_size": 1, "gradient_accumulation": 64})
    large = replace(last, choice={**last.choice, "micro_batch_size": 8, "gradient_accumulation": 1})
    both = Bundle(bundle.root, (small, large), bundle.lock)
    assert expected_facts(both, small, 1)["global_batch_size"] == 4
    patches = substitutions(Situation(both, 1, True, "tiny", "few"))[1]
    assert patches["limits"]["gradient_accumulation_steps"] == 4
    assert patches["first-rows"] == {f"{small.folder}train.py": 4, f"{large.folder}train.py": 8}


LOG = [{"loss": 6.0, "grad_norm": 1.0, "step": 1}, {"eval_loss": 5.0, "step": 2}, {"loss": 2.0, "step": 2}]


@pytest.mark.parametrize("entry", [{"loss": math.nan}, {"eval_loss": math.inf}, {"grad_norm": math.nan}])
def test_a_number_that_is_not_finite_is_found(entry: dict[str, float]) -> None:
    assert loss_problems(LOG) == []
    assert loss_problems([*LOG, entry | {"step": 3}])


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"float32": 28}, ""),
        ({"bfloat16": 28}, "of 28 tensors that the optimizer changes 28 are bfloat16 when its first step begins"),
        ({"bfloat16": 2, "float32": 26}, "of 28 tensors that the optimizer changes 2 are bfloat16"),
        ({}, "first_step.json is missing"),
    ],
)
def test_steps_in_16_bits_are_found(types: dict[str, int], words: str) -> None:
    problems = type_problems(types)
    assert bool(problems) is bool(words) and "".join(problems).startswith(words)


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([0.0, 1e-4, 0.0], ""),
        ([0.0, 0.5e-4], ""),  # a few steps into a warmup
        ([0.0, 0.0], "every logged learning_rate is 0"),
        ([], "every logged learning_rate is 0"),
        ([0.0, 1e-5], "the largest logged learning_rate is 1e-05, and 0.0001 is planned"),
        ([0.0, 3e-4], "the largest logged learning_rate is 0.0003, and 0.0001 is planned"),
    ],
)
def test_a_run_at_another_rate_or_at_none_is_found(rates: list[float], words: str) -> None:
    problems = rate_problems(rates, 1e-4)
    assert bool(problems) is bool(words) and "".join(problems).startswith(words)


@pytest.mark.parametrize(
    ("name", "norms", "words"),
    [
        ("sft-lora", [0.0, 0.5], "ok"),
        ("sft-lora", [0.0, 0.0], "every logged grad_norm is 0"),
        ("sft-lora", [], "ok"),  # an own loop that logs none
        ("grpo", [0.0, 0.0], "the same reward"),
        ("grpo", [0.0, 0.1], "ok"),
        ("on-policy-distill", [0.0, 0.0], "every logged grad_norm is 0"),  # no rewards are compared
    ],
)
def test_steps_without_gradients_are_found_or_told(name: str, norms: list[float], words: str) -> None:
    history, report = [{"learning_rate": 1e-4}, *({"grad_norm": norm} for norm in norms)], VerifyReport("run")
    check_steps(read_bundle(built(name)).last, history, 1e-4, report)
    told = ["ok" if check.ok else check.detail for check in report.checks] + [row.reason for row in report.not_run]
    assert len(told) == 1 and words in told[0]


def test_a_result_that_scores_like_the_start_is_found() -> None:
    start = {"metrics": {"eval_loss": 6.5, "perplexity": 665.1}}
    assert unchanged_problems({"before": start, "after": {"metrics": {"eval_loss": 6.4, "perplexity": 601.8}}}) == []
    assert "loads no trained weights" in unchanged_problems({"before": start, "after": start})[0]
    assert not lost_in_rounding(6, 1e-4)
    assert "--level learn" in lost_in_rounding(6, 2.5e-6)
    assert "--level learn" in lost_in_rounding(6, 1e-4, scales=True) and not lost_in_rounding(6, 1e-3, scales=True)


GUESS = {"eval_loss": math.log(500), "step": 0}


def test_random_weights_guess() -> None:
    assert guessing_problems([GUESS, *LOG], 500) == []
    assert guessing_problems([{"eval_loss": 5.0, "step": 0}, *LOG], 500) == [
        "the first eval_loss is 5.000, a guess would be 6.215"
    ]
    assert guessing_problems(LOG, 500) == ["no evaluation before the first step"]
    assert guessing_problems([GUESS], 0), "no configuration was saved"


@pytest.mark.parametrize("history", [[], LOG[:1], LOG[1:2]])
def test_losses_must_be_there(history: list[dict[str, Any]]) -> None:
    assert loss_problems(history)


def test_the_log_of_the_newest_checkpoint_is_read(tmp_path: Path) -> None:
    for step in (9, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(f'{{"log_history": [{{"step": {step}}}]}}')
    assert log_history(tmp_path) == [{"step": 10}]
    assert log_history(tmp_path / "none") == []


def test_missing_files_are_named(tmp_path: Path) -> None:
    problems = saved_problems(tmp_path, read_bundle(built("sft-lora")).last)
    assert [words.split()[0] for words in problems] == ["adapter_config.json", "tokenizer_config.json", "no", "no"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"evaluated": 14}, "train.py has 12 learned tokens of eval.jsonl, evaluate.py scores 14"),
        ({"trained": 0, "evaluated": 0}, "train.py has 0 learned tokens of eval.jsonl, evaluate.py scores 0"),
        ({"rows": 3}, "train.py takes 3 of the 4 rows of eval.jsonl"),
    ],
)
def test_evaluation_must_score_what_is_trained(changed: dict[str, int], words: str) -> None:
    fine = {"trained": 12, "evaluated": 12, "rows": 4, "rows_of_file": 4}
    problems, seen = learned_problems({"train": fine, "eval": fine | changed})
    assert "; ".join(problems) == words
    assert seen.startswith("12 tokens of 4 train rows; ")


def test_a_split_that_nothing_was_told_of_is_a_problem() -> None:
    assert learned_problems({}) == (["learned_tokens.json is missing"], "")


@pytest.mark.parametrize(
    ("loss", "rows", "words"),
    [
        (2.001, 8, ""),
        (2.02, 8, "after.json has a loss of 2.0200, row by row it is 2.0000"),
        (math.nan, 8, "after.json has a loss of nan, row by row it is 2.0000"),
        (2.0, 7, "after.json is of 7 rows, test.jsonl has 8 to score"),
    ],
)
def test_an_evaluation_must_agree_with_the_rows_one_by_one(loss: float, rows: int, words: str) -> None:
    assert "; ".join(score_problems(loss, rows, {"rows": 8, "loss": 2.0})) == words


@pytest.mark.parametrize(
    ("second", "words"),
    [(["c", "d"], ""), (["c", "a"], "epoch 1 has 3 different rows of 4"), ([], "epoch 1 has 2 different rows of 4")],
)
def test_an_epoch_must_have_every_row(second: list[str], words: str) -> None:
    problems, seen = epoch_problems({1: ["a", "b"], 2: second}, expected=4, steps=2)
    assert "; ".join(problems) == words and seen.startswith("1 epochs of 2 steps")


def test_an_epoch_must_have_the_rows_of_the_other_epochs() -> None:
    """Both answers of a pair are rows: two of three pairs would be more than the three that are expected."""
    rows = {1: ["a", "A", "b", "B"], 2: ["c", "C", "a", "A"]}
    assert epoch_problems(rows, expected=3, steps=1)[0] == [
        "epoch 1 has 4 different rows of 6",
        "epoch 2 has 4 different rows of 6",
    ]


@pytest.mark.parametrize("found", [{}, {"metrics": {"eval_loss": math.nan}, "samples": [1]}, {"metrics": {"a": 1.0}}])
def test_an_evaluation_must_have_numbers_and_samples(found: dict[str, Any]) -> None:
    whole = {"metrics": {"eval_loss": 1.0}, "samples": [{}]}
    assert evaluation_problems({"before": whole, "after": whole}, writes=True) == []
    assert evaluation_problems({"before": whole, "after": found}, writes=True)


def test_a_model_that_scores_has_no_samples() -> None:
    scores = {"metrics": {"accuracy": 1.0}}
    assert evaluation_problems({"before": scores, "after": scores}, writes=False) == []
    assert evaluation_problems({"before": scores, "after": {"metrics": {"accuracy": math.nan}}}, writes=False)


def test_learning_is_a_loss_that_halves() -> None:
    assert loss_halves(LOG, 0.5) == [] and loss_halves([{"loss": 6.0}, {"loss": 3.1}], 0.8) == []
    assert loss_halves([{"loss": 6.0}, {"loss": 3.1}], 0.5)
    assert loss_halves([{"loss": 6.0}], 0.5)
    assert loss_halves([{"loss": 6.0}, {"loss": math.nan}], 0.5)


# check, what one metric must do between the first log and the last, and whether that proves something
PROVEN = [
    ("margins_rise", "rewards/margins", 0.0, 0.4, True),
    ("margins_rise", "rewards/margins", -0.2, -0.1, False),
    ("margins_rise", "rewards/margins", 0.3, 0.2, False),
    ("accuracy_rises", "accuracy", 0.5, 1.0, True),
    ("accuracy_rises", "accuracy", 0.5, 0.8, False),
    ("accuracy_rises", "accuracy", 1.0, 0.95, False),
    ("accuracy_rises", "accuracy", 0.5, math.nan, False),
    ("divergence_falls", "loss", 2.0, 1.4, True),
    ("divergence_falls", "loss", 2.0, 1.6, False),
    ("divergence_falls", "loss", 0.0, 0.0, False),
    ("divergence_falls", "loss", 2.0, -0.1, False),
    ("loss_halves", "loss", 2.0, 0.9, True),
    ("loss_halves", "loss", 2.0, 1.1, False),
]


@pytest.mark.parametrize(("check", "metric", "first", "last", "fine"), PROVEN)
def test_a_metric_proves_what_it_should(check: str, metric: str, first: float, last: float, fine: bool) -> None:
    proof = PROOFS[check]
    assert (proof.found([{metric: first}, {metric: last}], 0.5) == []) is fine
    assert proof.found([{metric: first}], 0.5), "one log shows no change"
    assert proof.found([], 0.5), "a metric that was never logged proves nothing"


@pytest.mark.parametrize(("chosen", "rejected", "fine"), [(0.4, -0.3, True), (-0.1, -0.3, True), (0.2, 0.3, False)])
def test_liked_answers_end_above_disliked_ones(chosen: float, rejected: float, fine: bool) -> None:
    first = {"rewards/chosen": 0.0, "rewards/rejected": 0.0}
    one_kind = {"rewards/chosen": -9.0}  # a batch without a disliked answer
    history = [first, {"rewards/chosen": chosen, "rewards/rejected": rejected}, one_kind]
    assert (PROOFS["rewards_separate"].problems(history) == []) is fine
    assert PROOFS["rewards_separate"].problems([first, one_kind])


def test_a_policy_begins_as_its_reference() -> None:
    check = PROOFS["starts_as_reference"].problems
    start = {"rewards/chosen": 0.0, "rewards/margins": 0.004, "rewards/accuracies": 0.5}
    later = {"rewards/chosen": 3.0, "rewards/margins": 5.0}
    assert check([{"eval_loss": 0.5}, start, later]) == []
    assert check([later]) == ["rewards/chosen begins at 3.0000", "rewards/margins begins at 5.0000"]
    assert check([{"rewards/rejected": math.nan}, start])
    assert check([{"loss": 0.5}]) == ["no reward was logged"]


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_every_method_names_checks_that_exist(method: Method) -> None:
    assert [PROOFS[name] for name in method.proof] == list(proofs_of(method))


@pytest.mark.parametrize("named", [("loss_halves", "loss_vanishes"), ()])
def test_a_row_that_names_an_unknown_check_or_none_fails_loudly(named: tuple[str, ...]) -> None:
    with pytest.raises(UnknownProof, match="loss_vanishes" if named else "no check"):
        proofs_of(replace(METHODS["sft"], proof=named))


def test_logits_are_compared_with_the_rounding_of_bf16() -> None:
    assert logit_problems([4.0, -2.0], [4.01, -2.0])[0] == []
    assert logit_problems([4.0, -2.0], [4.2, -2.0])[0]
    assert logit_problems([4.0, -2.0], [math.nan, -2.0])[0]
    assert logit_problems([4.0], [4.0, 1.0])[0]


def test_one_wrong_logit_of_many_is_found_and_one_score_may_be_rounded() -> None:
    many = [4.0] * 500
    assert logit_problems(many, [*many[1:], 3.5])[0]
    assert logit_problems(many, [*many[1:], 3.9])[0] == []  # as far as DoRA was rounded
    assert logit_problems([2.4, -2.7, 2.2, -3.4], [2.4, -2.8, 2.2, -3.4], scores=True)[0] == []
    assert logit_problems([2.4, -2.7, 2.2, -3.4], [2.2, -2.9, 2.0, -3.2], scores=True)[0]


SEEN = {5: ["a", "b"], 6: ["c", "d"], 7: ["e", "f"]}


@pytest.mark.parametrize(
    ("resumed", "words"),
    [
        ({6: ["c", "d"], 7: ["e", "f"]}, ""),
        ({6: ["a", "b"], 7: ["c", "d"]}, "2 of 2 steps behind checkpoint-6 have other rows than without a break: "),
        ({6: ["a", "b"], 7: ["c", "d"]}, "of their 4 rows 2 are left out, and 2 are seen again instead"),
        ({6: ["e", "f"], 7: ["c", "d"]}, "of their 4 rows 0 are left out, and 0 are seen again instead"),
        ({6: ["c", "d"]}, "1 of 2 steps behind checkpoint-6 have other rows"),
        ({}, "of their 4 rows 4 are left out"),
    ],
    ids=["those that are left", "seen ones", "counted", "another order", "too few", "none"],
)
def test_a_resumed_training_goes_on_with_the_rows_that_are_left(resumed: dict[int, list[str]], words: str) -> None:
    problems = row_problems(SEEN, resumed, 6)
    assert bool(problems) is bool(words) and words in "".join(problems)
    assert row_problems({}, {}, 6), "nothing was noted"


def test_the_rows_of_all_ranks_and_micro_steps_are_those_of_a_step(tmp_path: Path) -> None:
    (tmp_path / "rows-whole-0").write_text('{"step": 0, "rows": ["b"]}\n{"step": 0, "rows": ["c"]}\n')
    (tmp_path / "rows-whole-1").write_text('{"step": 0, "rows": ["a"]}\n{"step": 1, "rows": ["d"]}\n')
    assert rows_by_step(tmp_path, "rows-whole") == {0: ["a", "b", "c"], 1: ["d"]}


@pytest.mark.parametrize(("change", "exact", "fine"), [(0.0, True, True), (1e-6, True, False), (1e-6, False, True)])
def test_weights_are_compared_to_the_bit_for_one_process(change: float, exact: bool, fine: bool) -> None:
    import torch

    whole, resumed = {"w": torch.ones(3)}, {"w": torch.ones(3) + change}
    assert (weight_problems(whole, resumed, exact) == []) is fine
    assert weight_problems(whole, {"v": torch.ones(3)}, exact)
    assert weight_problems(whole, {"w": torch.full((3,), math.nan)}, exact)


@pytest.mark.parametrize(("apart", "fine"), [(1 / 128, True), (1 / 16, False)])
def test_rounded_weights_may_differ_in_their_last_digit(apart: float, fine: bool) -> None:
    torch = pytest.importorskip("torch")
    one, other = ({"w": torch.full((3,), value, dtype=torch.bfloat16)} for value in (1.0, 1.0 + apart))
    assert (weight_problems(one, other, exact=False) == []) is fine
    assert weight_problems(one, other, exact=True)


def test_a_script_that_only_trains_the_last_stage(tmp_path: Path) -> None:
    bundle = copy_of("sft-dpo", tmp_path)
    write_training_only(bundle, bundle.last)
    subprocess.run(["bash", "-n", bundle.root / "launch/training-only.sh"], check=True)
    text = (bundle.root / "launch/training-only.sh").read_text()
    commands = [line for line in text.splitlines() if 'python "$BUNDLE' in line]
    assert commands == ['python "$BUNDLE/stages/2-dpo/train.py" "$@"']
    assert "export DATA_ROOT" in text
    assert "several stages" not in text  # it gives the stage a folder of its own


def test_a_script_that_only_trains_keeps_the_launcher(tmp_path: Path) -> None:
    bundle = copy_of("fsdp", tmp_path)
    write_training_only(bundle, bundle.last)
    text = (bundle.root / "launch/training-only.sh").read_text()
    assert "accelerate launch" in text
    assert "evaluate.py" not in text


def test_a_half_written_checkpoint_has_no_end_marker(tmp_path: Path) -> None:
    whole = tmp_path / "checkpoint-6"
    whole.mkdir()
    for name in ("trainer_state.json", "run.json"):
        (whole / name).touch()
    assert [path.name for path in half_written(tmp_path, 6, 7).iterdir()] == ["trainer_state.json"]


@pytest.mark.parametrize(
    ("history", "left_out"),
    [
        ([{"eval_loss": 1.0}, {"loss": 1.0}, {"loss": 0.0}, {"eval_loss": 0.2}], {"train_eval_gap"}),
        ([{"loss": 1.0}, {"eval_loss": 0.2}, {"loss": -0.5}, {"eval_loss": 0.1}], set()),
        ([{"reward": 0.0}, {"eval_reward": 0.5}], set()),
        ([{"eval_loss": 0.2}], set()),
    ],
)
def test_a_share_of_no_loss_need_not_be_logged(history: list[dict[str, float]], left_out: set[str]) -> None:
    assert undefined_metrics(history) == left_out
