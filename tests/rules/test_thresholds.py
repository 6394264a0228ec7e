"""Fine-tuning: every threshold of a single decision below, at and above, and the choices where the books are silent."""

from __future__ import annotations

from math import ceil

import pytest

from recipec.axes import LORA_VARIANTS
from recipec.rules import (
    adaptation,
    batch,
    checkpoints,
    data,
    evaluation,
    intervals,
    kernels,
    loader,
    lora,
    memory,
    model,
    optimizer,
    precision,
    preference,
    schedule,
    tracking,
)
from recipec.rules.core import Decision, Ledger, Wish
from recipec.rules.words import data_size, gpu_memory
from recipec.units import number

SEVEN = 7_000_000_000
SIZES = (999, 1_000, 9_999, 10_000, 100_000, 100_001)


def over(rule, position, values, *arguments):
    """Return the rule's values while the argument at `position` runs through `values`."""
    return [rule(*arguments[:position], value, *arguments[position:]).value for value in values]


def test_data_size_rows():
    assert [data_size(n) for n in SIZES] == ["<1K", "1K-10K", "1K-10K", "10K-100K", "10K-100K", ">100K"]


def test_gpu_memory_branches():
    gib = (15.9, 16, 47.9, 48, 160, 160.1)
    assert [gpu_memory(g, False) for g in gib] == ["<16", "16-48", "16-48", "48-160", "48-160", ">160"]
    assert gpu_memory(8, True) == "cpu"


def test_numbers_are_written_as_in_papers():
    assert [number(n) for n in (2e-4, 2e-5, 5e-7, 0.03, 64)] == ["2e-4", "2e-5", "5e-7", "0.03", "64"]


def test_learning_rate_by_data_size():
    assert over(optimizer.learning_rate, 2, SIZES, "sft", "lora", SEVEN) == [3e-4] + [2e-4] * 5
    assert over(optimizer.learning_rate, 2, SIZES, "sft", "full", SEVEN) == [2e-5] * 6
    assert over(optimizer.learning_rate, 2, SIZES, "dpo", "lora", SEVEN) == [5e-6] * 6


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("params", "rate"), [(30_000_000_000, 1e-4), (70_000_000_000, 1e-4)])
@pytest.mark.parametrize("adaptation", ["lora", "qlora"])
def test_adapters_of_large_models_learn_at_half_the_rate(adaptation, rows, params, rate):
    found = optimizer.learning_rate("sft", adaptation, rows, params)
    assert found.value == rate and found.source.startswith("QLoRA (arXiv 2305.14314")
    assert optimizer.learning_rate("sft", adaptation, rows, 29_999_999_999).value in (2e-4, 3e-4)


def test_a_4_bit_base_narrows_the_accepted_learning_rate():
    assert optimizer.learning_rate("sft", "lora", 5_000, SEVEN).accepts == (1e-4, 5e-4)
    assert optimizer.learning_rate("sft", "qlora", 5_000, SEVEN).accepts == (1e-4, 3e-4)


def test_epochs_by_data_size():
    assert over(schedule.epochs, 2, SIZES, "sft", "lora") == [5, 3, 3, 2, 2, 1]
    assert over(schedule.epochs, 2, SIZES, "sft", "full") == [3, 3, 3, 2, 2, 1]
    assert over(schedule.epochs, 2, SIZES, "dpo", "lora") == [3, 2, 2, 1, 1, 1]


def test_ten_epochs_are_never_accepted_silently():
    for stage in ("sft", "dpo"):
        assert all(schedule.epochs(stage, "lora", n).accepts[1] < 10 for n in SIZES)


def test_warmup_by_stage_and_data_size():
    assert over(schedule.warmup, 1, SIZES, "sft") == [0.1] + [0.03] * 5
    assert schedule.warmup("dpo", 999).value == 0.1


def test_global_batch_size():
    rest = (SEVEN, 2_048, 500)
    assert over(batch.global_batch_size, 0, ("sft", "dpo"), "lora", 5_000, *rest) == [32, 32]
    assert over(batch.global_batch_size, 0, ("sft", "dpo"), "full", 5_000, *rest) == [64, 32]


def test_lora_rank_under_at_and_over_16_gb():
    assert over(lora.lora_rank, 3, (15.9, 16, 16.1), "sft", True, 5_000, False) == [32, 64, 64]
    assert lora.lora_rank("sft", True, 5_000, 8, True).value == 64, "a CPU has no GPU memory to be short of"
    assert lora.lora_rank("sft", False, 5_000, 8, False).accepts == (8, 32)


def lora_rank_for(stage, new_domain, examples):
    return lora.lora_rank(stage, new_domain, examples, 24, False).value


def test_lora_rank_by_difficulty():
    assert lora_rank_for("sft", False, 100_000) == 16
    assert lora_rank_for("sft", False, 100_001) == 32
    assert lora_rank_for("sft", True, 100_001) == 64
    assert lora_rank_for("dpo", False, 5_000) == 16


def test_lora_alpha_and_its_range_follow_the_rank():
    assert over(lora.lora_alpha, 1, (4, 8, 16, 64, 128), "sft") == [8, 16, 32, 128, 256]
    assert over(lora.lora_alpha, 1, (8, 32, 64), "dpo") == [16, 64, 128]
    ranges = [lora.lora_alpha("dpo", rank).accepts for rank in (4, 8, 32, 64)]
    assert ranges == [(8, 64), (16, 64), (16, 64), (16, 128)]


def test_lora_dropout():
    assert over(lora.lora_dropout, 1, (999, 1_000, 1_001), "sft", ()) == [0.1, 0.05, 0.05]


def test_a_variant_of_lora_has_its_own_rate_alpha_and_dropout():
    def rates(stage: str) -> list[float]:
        return [optimizer.learning_rate(stage, "lora", 5_000, SEVEN, "adamw", name).value for name in LORA_VARIANTS]

    assert list(LORA_VARIANTS) == ["standard", "rslora", "dora", "pissa", "lora-plus"]
    assert rates("sft") == [2e-4, 2e-4, 1.5e-4, 2e-5, 1e-4]
    assert rates("dpo") == [5e-6, 5e-6, 3.8e-6, 5e-7, 2.5e-6]
    assert optimizer.learning_rate("sft", "lora", 5_000, SEVEN, "adamw", "pissa").accepts == (1e-5, 5e-5)
    assert [lora.lora_alpha("sft", rank, "rslora").value for rank in (8, 16, 64)] == [8, 8, 8]
    assert lora.lora_alpha("sft", 16, "rslora").accepts == (4, 32)
    dropped = [lora.lora_dropout("sft", 5_000, (), name).value for name in LORA_VARIANTS]
    assert dropped == [0.05, 0.05, 0, 0, 0.05]


def test_ia3_takes_40_times_the_rate_of_lora():
    for stage in ("sft", "dpo", "continue-pretrain"):
        of_lora, of_ia3 = (optimizer.learning_rate(stage, name, 5_000, SEVEN) for name in ("lora", "ia3"))
        assert of_ia3.value == pytest.approx(40 * of_lora.value)
        assert of_ia3.accepts == pytest.approx(tuple(40 * bound for bound in of_lora.accepts))
    assert optimizer.learning_rate("sft", "ia3", 5_000, SEVEN).value == pytest.approx(8e-3)


def test_a_soft_prompt_takes_150_times_the_rate_of_lora():
    assert optimizer.learning_rate("sft", "prompt-tuning", 5_000, SEVEN).value == pytest.approx(3e-2)
    assert adaptation.virtual_tokens().value == 20


def test_what_makes_a_prompt_takes_5_times_the_rate_of_lora_and_a_prefix_25_times():
    assert optimizer.learning_rate("sft", "p-tuning", 5_000, SEVEN).value == pytest.approx(1e-3)
    assert optimizer.learning_rate("sft", "prefix-tuning", 5_000, SEVEN).value == pytest.approx(5e-3)
    assert adaptation.encoder_hidden_size().value == 128
    assert (adaptation.prefix_tokens().value, adaptation.prefix_encoder_size().value) == (20, 0)


def test_ia3_scales_what_it_can_reach():
    assert [adaptation.scaled_modules(moe).value for moe in (False, True)] == ["keys-values-mlp", "keys-values"]


def test_adapters_on_experts_have_no_dropout():
    assert over(lora.lora_dropout, 1, (999, 1_001), "sft", ("experts.down_proj",)) == [0, 0]


def test_every_linear_layer_and_every_expert_is_adapted():
    assert {lora.lora_targets(moe).value for moe in (False, True)} == {"all-linear"}
    assert lora.lora_targets(True).because != lora.lora_targets(False).because


def test_an_expert_has_its_share_of_the_rank():
    assert over(lora.lora_expert_rank, 1, (1, 2, 4, 8), 16) == [16, 8, 4, 2]
    assert lora.lora_expert_rank(4, 8).value == 1


def test_8_bit_states_only_where_they_save_memory():
    assert optimizer.optimizer("full", "memory", False).value == "adamw-8bit"
    for facts in (
        ("lora", "memory", False),
        ("full", "quality", False),
        ("full", None, False),
        ("full", "memory", True),
    ):
        assert optimizer.optimizer(*facts).value == "adamw"


def test_precision_by_hardware():
    assert over(precision.precision, 0, (True, False), False) == ["bf16", "fp16"]
    assert over(precision.precision, 0, (True, False), True) == ["fp32", "fp32"]


def test_checkpointing_is_required_above_7b_and_under_16_gb():
    seven = 7_000_000_000
    sizes = (seven - 1, seven, seven + 1)
    assert over(memory.checkpointing_default, 0, sizes, None, 80, False) == [False, False, True]
    assert over(memory.checkpointing_default, 2, (15.9, 16, 16.1), seven, None, False) == [True, False, False]
    assert memory.checkpointing_default(seven, "memory", 80, False).value is True
    assert memory.checkpointing_default(seven, None, 8, True).value is False


def test_kernels():
    assert kernels.attention(True).value == "sdpa"
    assert kernels.attention(False).value == "eager"
    assert kernels.compile_model("none").value is False


@pytest.mark.parametrize(
    ("stage", "mean", "p99", "context", "expected"),
    [
        ("sft", None, None, None, 2_048),
        ("sft", None, 256, None, 256),
        ("sft", None, 257, None, 512),
        ("sft", None, 10, None, 256),
        ("sft", 600, None, None, 2_048),
        ("sft", 600, 700, None, 1_024),
        ("sft", 600, None, 1_024, 1_024),
        ("dpo", None, 3_000, 131_072, 4_096),
    ],
)
def test_max_length(stage, mean, p99, context, expected):
    choice = data.max_length(stage, mean, p99, context)
    assert choice.value == expected
    assert choice.accepts == ((16, context) if context else None)


@pytest.mark.parametrize(
    ("stage", "attention", "packs", "strategy"),
    [
        ("sft", "sdpa", False, "none"),
        ("sft", "eager", False, "none"),
        ("sft", "flash_attention_2", True, "bfd"),
        ("sft", "torch_varlen", True, "bfd"),
        ("sft", "eager", False, "none"),
        ("dpo", "flash_attention_2", False, "none"),
    ],
)
def test_packing(stage, attention, packs, strategy):
    assert data.packing(stage, attention).value is packs
    assert data.packing_strategy(stage, packs).value == strategy


def test_overflow_and_the_limit_of_dropped_rows():
    assert over(data.overflow, 0, ("sft", "dpo")) == ["drop", "drop"]
    assert data.dropped_rows_limit().value == 0.05


def test_loss_on_the_answers_only():
    formats = ("text", "chat", "instruction", "prompt-completion", "preference")
    assert over(data.loss_on, 1, formats, "sft", "plain", False, False) == ["all", "assistant", *["completion"] * 3]


def test_conversations_without_a_mask_become_rows():
    assert data.loss_on("sft", "chat", "model", True, False).value == "assistant"
    assert data.loss_on("sft", "chat", "model", False, False).value == "completion"
    assert data.loss_on("sft", "chat", "model", True, True).value == "completion"
    said = [data.loss_on("sft", rows, "model", False, False).because for rows in ("chat", "instruction")]
    assert ["becomes a row" in because for because in said] == [True, False]


def test_template():
    assert data.template("text", "base", True).value == "none"
    assert data.template("chat", "chat", True).value == "model"
    assert data.template("chat", "base", True).value == "model"
    assert data.template("instruction", "base", False).value == "plain"


def test_preparation_always_removes_duplicates_and_leaks():
    assert data.deduplication().value == "exact"
    assert data.leak_check().value == "remove-from-train"


def test_given_files_replace_the_fractions():
    for rule in (evaluation.eval_fraction, evaluation.test_fraction):
        assert over(rule, 0, (False, True), 5_000, "sft", 7e9) == [0.1, 0.0]


def test_a_decided_share_leaves_room_for_a_written_one():
    for rule, other in ((evaluation.eval_fraction, "test"), (evaluation.test_fraction, "eval")):
        assert over(rule, 4, (0.0, 0.8, 0.82, 0.95), False, 100, "sft", 7e9) == [0.1, 0.1, 0.09, 0.025]
        assert f"`data.{other}_fraction` leaves" in rule(False, 100, "sft", 7e9, 0.95).because


def test_about_a_thousand_rows_are_held_out_of_many():
    for rule in (evaluation.eval_fraction, evaluation.test_fraction):
        rows = (10_000, 10_001, 12_000, 450_000, 10**7)
        assert over(rule, 1, rows, False, "sft", 7e9) == [0.1, 0.1, 0.083, 0.0022, 0.0001]
        assert over(rule, 1, (5_000, 10_000, 450_000), False, "sft", 8e9) == [0.1, 0.05, 0.0011]


def test_no_more_prompts_are_held_out_than_evaluations_answer():
    for rule in (evaluation.eval_fraction, evaluation.test_fraction):
        for stage in ("grpo", "rloo", "ppo", "on-policy-distill"):
            assert over(rule, 1, (1_000, 12_800), False, stage, 7e9) == [0.1, 0.01]


def test_eval_samples_around_7b():
    assert over(evaluation.eval_samples, 1, (7_000_000_000, 7_000_000_001), "sft") == [1000, 500]
    assert evaluation.eval_samples("grpo", 7_000_000_000).value == 128


def test_intervals_are_told_as_whole_generations():
    """Of 1,216 steps a twentieth are 61; the answers of four steps are written together."""
    told = [evaluation.eval_every(1_216, 3_600, 0.1, 1, *passes).because for passes in ((), (0, 1, 4), (0, 4, 1))]
    assert told == ["every 61 steps, 20 times in 1,216 steps", *2 * ["every 64 steps, 19 times in 1,216 steps"]]


def test_evaluations_and_checkpoints_are_counted_between_generations():
    """16 steps learn from two generations: there are two evaluations, whatever share asks for more."""
    taught = (2, 4)  # minibatches, passes
    assert evaluation.eval_every(16, 40, 0.25, 1, 0.0, *taught).value == 0.2
    assert checkpoints.save_every(0.1, 16, 40, 0.25, 1, 1.0, *taught).value == 0.1, "not ten of them"
    assert "the last step is the result" in evaluation.best_metric("ppo", 0.1, 1.0, 16, *taught).because


QUICK = (3_600, 0.1, 1)  # seconds of training and of a checkpoint, GPUs: nothing is to be weighed


def test_evaluation_interval_in_steps():
    steps = (10, 249, 250, 499, 500, 999, 1_000, 2_499, 2_500, 4_999, 5_000, 50_000)
    shares = [0.2, 0.2, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05, 0.02, 0.02, 0.01, 0.01]
    assert over(evaluation.eval_every, 0, steps, *QUICK) == shares


def test_checkpoints_take_a_tenth_of_the_training_time_at_most_where_rows_are_seen_again():
    """Of 10,000 s they may take 1,000, a quarter of an hour apart; 100 evaluations of 1 s stay as they are."""
    written = (1, 10, 50, 51, 90, 100, 500, 501, 10_000)
    shares = [0.01, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 1.0]
    found = [checkpoints.save_every(0.01, 10_000, 1e4, seconds, 8, 2.0) for seconds in written]
    assert [choice.value for choice in found] == shares
    once = [checkpoints.save_every(0.01, 10_000, 1e4, seconds, 8, 1.0).value for seconds in written]
    assert once == [0.01, 0.1, 0.25, 0.25, 0.25, 0.25, 0.5, 1.0, 1.0], "2% of it, or 5% for up to four"
    assert found[5].because.startswith("after every 10 evaluations, 10 times in all: writing one takes 2 min, 10% of")
    assert found[-1].because.startswith("no checkpoint is written: ")
    assert {evaluation.eval_every(10_000, 1e4, seconds, 8).value for seconds in written} == {0.01}


def test_a_short_run_of_a_large_model_does_not_wait_for_its_disk():
    """70B on 64 GPUs: 14 minutes for each checkpoint; five of them were 45% of the training."""
    choice = checkpoints.save_every(0.2, 40, 9_300, 840, 64, 1.0)
    assert choice.value == 1.0 and "one at each evaluation, 45% of the training" in choice.because


def test_each_pass_over_rows_that_are_seen_again_has_a_checkpoint():
    assert checkpoints.save_every(0.2, 40, 9_300, 840, 64, 2.0).value == 0.6
    assert checkpoints.save_every(0.2, 40, 9_300, 840, 64, 5.0).value == 0.2


def test_passes_have_checkpoints_only_where_half_of_the_time_is_enough():
    """Three passes of 70 s over rows, and 567 s for each checkpoint: 70B, all weights, 2,000 rows."""
    choice = checkpoints.save_every(0.2, 75, 212, 567, 16, 3.0)
    assert choice.value == 1.0 and "even if an earlier evaluation was better" in choice.because
    assert checkpoints.save_every(0.2, 75, 3 * 567 / 0.5, 567, 16, 3.0).value == 0.4, "three, of which one is the last"
    assert checkpoints.save_every(0.2, 75, 2 * 567 / 0.5, 567, 16, 3.0).value == 0.6


def test_checkpoints_are_no_further_apart_than_loses_least_to_failures():
    """On 16,384 GPUs writing for more than a tenth of the time loses less than what failures would repeat; on 64 2% of
    it are the limit.
    """
    weeks = 28 * 24 * 3600
    few, many = (checkpoints.save_every(0.001, 10**6, weeks, 600, gpus, 1.0).value for gpus in (64, 16_384))
    assert (few, many) == (0.013, 0.002)


@pytest.mark.parametrize("total_steps", [1, 2, 7, 11, 83, 330, 1_000, 9_999])
@pytest.mark.parametrize(("eval_every", "save_every"), [(0.05, 0.05), (0.05, 0.1), (0.02, 0.3), (0.2, 1.0)])
def test_every_checkpoint_meets_an_evaluation(total_steps, eval_every, save_every):
    """Rounded up one by one, 0.05 and 0.1 of 330 steps would be 17 and 33."""
    each, saved = intervals.steps_apart(eval_every, save_every, total_steps, 1)
    assert saved % each == 0 and each >= 1
    times = ceil(total_steps / saved)
    assert intervals.saves_in(eval_every, save_every, total_steps, 1) == (times if times > 1 else 0)
    asked = save_every * total_steps
    assert saved == each or abs(saved - asked) <= each / 2 or (saved >= total_steps and save_every == 1)


@pytest.mark.parametrize(
    ("steps", "eval_every", "evaluations", "apart"),
    [(30, 0.01, 15, 15), (11, 0.2, 4, 12), (49, 0.01, 17, 17), (330, 0.05, 2, 34)],
)
def test_a_share_of_so_many_evaluations_is_as_many_steps(steps, eval_every, evaluations, apart):
    """Of 30 steps an evaluation comes after each, though a hundredth of them is less than one."""
    share = intervals.saving_share(eval_every, evaluations, steps, 1)
    assert 0 < share <= 1 and intervals.steps_apart(eval_every, share, steps, 1)[1] == apart


@pytest.mark.parametrize(
    ("saved", "evaluated", "then"), [(0.1, 0.2, 0.1), (0.25, 0.2, 0.125), (0.6, 0.2, 0.2), (0.1, 0.03, 0.025)]
)
def test_evaluations_divide_the_checkpoints_that_a_recipe_asks_for(saved, evaluated, then):
    assert intervals.divided(saved, evaluated) == pytest.approx(then)


def test_long_runs_on_many_gpus_save_more_often():
    """Four weeks: a checkpoint of 60 s pays every 13 h on 8 GPUs, every 99 minutes on 512 and every 18 on 16,384."""
    weeks = 28 * 24 * 3600
    assert [evaluation.eval_every(10**6, weeks, 60, gpus).value for gpus in (8, 64, 512, 16_384)] == [
        *(0.01, 0.01, 0.005, 0.001)
    ]


def test_evaluations_are_counted_as_the_trainer_makes_them():
    """TrainerCallback evaluates at the last step, too, where the interval does not meet it."""
    said = {steps: evaluation.eval_every(steps, *QUICK).because for steps in (1, 2, 7, 11, 83, 1_000)}
    assert said == {
        1: "after the only step",
        2: "after each of the 2 steps",
        7: "after each of the 7 steps",
        11: "every 2 steps, 6 times in 11 steps",
        83: "every 17 steps, 5 times in 83 steps",
        1_000: "every 50 steps, 20 times in 1,000 steps",
    }


@pytest.mark.parametrize(("each", "share"), [(0, 0.05), (6, 0.05), (9, 0.1), (20, 0.2), (600, 0.2)])
def test_evaluations_take_about_three_percent_of_the_training(each, share):
    """Of an hour: 20 of 6 seconds are 3.3%, 10 of 9 are 2.5%; five are the least."""
    assert evaluation.eval_every(1_200, 3_600, 0.1, 1, each).value == share


@pytest.mark.parametrize(
    ("hours", "seconds", "saves"), [(3, 15, 12), (3, 0.5, 100), (0.3, 15, 4), (30, 15, 100), (3, 1, 100), (3, 3, 20)]
)
def test_checkpoints_that_cost_something_are_a_quarter_of_an_hour_apart(hours, seconds, saves):
    """A hundred of a second take 1% of three hours: they may be written with every evaluation."""
    share = checkpoints.save_every(0.01, 10_000, hours * 3_600, seconds, 8, 1.0).value
    assert intervals.saves_in(0.01, share, 10_000, 1) == saves
    assert saves * seconds <= 60 or seconds <= 1 or hours * 3_600 / saves >= 900


@pytest.mark.parametrize("checkpoint_seconds", [0.1, 1_000])
@pytest.mark.parametrize("total_steps", [*range(1, 300), 1_000, 9_999])
def test_a_run_of_five_steps_or_more_is_evaluated_five_times(checkpoint_seconds, total_steps):
    choice = evaluation.eval_every(total_steps, 3_600, checkpoint_seconds, 8)
    interval = ceil(choice.value * total_steps)
    assert len([step for step in range(1, total_steps + 1) if step % interval == 0 or step == total_steps]) >= min(
        5, total_steps
    )


@pytest.mark.parametrize("total_steps", range(250, 10_001, 50))
def test_evaluation_is_every_50_to_125_steps(total_steps):
    assert 50 <= evaluation.eval_every(total_steps, *QUICK).value * total_steps <= 125


def test_what_no_key_sets_has_no_range():
    assert evaluation.early_stopping_patience("sft", 3, 0.1, 0.1, 1_000).accepts is None
    assert evaluation.eval_samples("sft", 1).accepts is None


def test_a_range_of_saving_would_promise_what_is_refused():
    assert checkpoints.save_every(0.2, 100, 3_600, 0.1, 1, 1.0).accepts is None


def test_saving_follows_evaluation():
    assert over(checkpoints.save_every, 0, (0.01, 0.2), 10_000, *QUICK, 1.0) == [0.01, 0.2]
    assert checkpoints.keep_checkpoints().value == 3
    assert checkpoints.keep_checkpoints().accepts[0] == 2


@pytest.mark.parametrize(
    ("share", "decay", "said"),
    [(0.1, 0.1, ""), (0.02, 0.1, "keep_checkpoints = 7` keeps it"), (0.01, 0.1, "copy it during"), (0.01, 0.0, "")],
)
def test_the_last_checkpoint_before_the_decay_is_spoken_of(share, decay, said):
    """Of 1,000 steps the last 100: with 2% between checkpoints, five are written in them, and one is the best."""
    because = checkpoints.keep_checkpoints(share, share, 1_000, decay).because
    assert said in because and ("before it" in because) == bool(said)


def test_the_best_metric_is_that_of_the_method():
    assert evaluation.best_metric("sft", 0.1, 0.1, 1_000).value == "eval_loss"
    assert evaluation.best_metric("grpo", 0.1, 0.1, 1_000).value == "eval_reward"
    assert evaluation.best_metric("ppo", 0.1, 0.1, 1_000).value == "eval_objective"


@pytest.mark.parametrize("epochs", [0.5, 1.0, 1.99])
def test_a_run_that_sees_rows_once_is_not_stopped_early(epochs):
    assert evaluation.early_stopping_patience("sft", epochs, 0.1, 0.1, 1_000).value == 0, (
        "a single pass memorizes nothing"
    )


@pytest.mark.parametrize(("eval_every", "patience"), [(0.25, 3), (0.1, 3), (0.05, 4), (0.02, 10), (0.01, 20)])
def test_a_run_is_stopped_after_a_level_fifth_of_it(eval_every, patience):
    assert evaluation.early_stopping_patience("sft", 2.0, eval_every, eval_every, 1_000).value == patience


def test_dataloader():
    assert over(loader.dataloader_workers, 0, (None, 1, 3, 4, 8, 9, 64)) == [4, 1, 3, 4, 8, 8, 8]
    assert loader.dataloader_workers(None, None, 1, True).value == 1, "4 on a machine of 2 cores take turns"
    assert loader.dataloader_workers(2, None, 1, True).value == 2
    assert loader.prefetch_factor().value == 2
    assert over(loader.pin_memory, 0, (False, True)) == [True, False]
    assert not loader.persistent_workers().value, "a resumed run would draw once more, and its dropout be another"


def test_tracking():
    assert tracking.tracker().value == "tensorboard"
    assert over(tracking.logging_steps, 0, (99, 100, 101)) == [1, 10, 10]
    assert tracking.seed().value == 42


def test_reference_is_the_start_of_the_stage():
    assert preference.reference("lora", False).value == "base"
    assert preference.reference("lora", True).value == "merged"
    assert over(preference.reference, 1, (False, True), "full") == ["copy", "copy"]


def decided(wished: float) -> str:
    """What is said of a learning rate that a recipe sets, beside its reason."""
    ledger = Ledger({"train.learning_rate": Wish(wished, "recipe.toml:1")})
    given = {"stage": "sft", "adaptation": "lora", "examples": 5_000, "params": SEVEN, "optimizer": "adamw"}
    return ledger.decide(
        optimizer.learning_rate, *(Decision(id, value, "given") for id, value in given.items())
    ).dissent


def test_a_rate_against_forgetting_is_told_what_it_costs():
    assert "forgets less, but also learns less" in decided(1e-5)
    assert decided(1e-3) and "forgets" not in decided(1e-3)
    assert decided(1e-4) == ""


def test_of_models_of_one_size_the_one_that_needs_no_permission_comes_first():
    row = model.ModelRow("open", "a", 1.0, SEVEN, False, False, 4_096)
    asked = row._replace(name="gated", line="b", has_mask=True, gated=True)
    assert model.model_order((asked, row)).value == ("open", "gated")


def test_without_models_the_reason_says_so():
    assert model.model_order(()).because == "no model is acceptable"


def test_a_base_model_ends_where_its_template_ends_a_turn():
    end, text = "<|im_end|>", ("<|endoftext|>",)
    assert data.eos_token("sft", "model", end, True, text).value == end
    assert data.eos_token("dpo", "chatml", end, True, text).value == end
    assert data.eos_token("sft", "model", end, True, (*text, end)).value == "none", "it stops there"
    assert data.eos_token("sft", "plain", end, True, text).value == "none", "its answers end with the model's own token"
    assert data.eos_token("continue-pretrain", "model", end, True, text).value == "none"
    assert data.eos_token("reward", "model", end, True, text).value == "none", "nothing is written"


def test_an_end_token_that_may_be_missing_is_assumed_and_one_that_is_missing_is_not_taken():
    end, text = "<|im_end|>", ("</s>",)
    assumed = data.eos_token("sft", "chatml", end, None, text)
    assert assumed.value == end and "assumes" in assumed.because
    assert "assumes" not in data.eos_token("sft", "chatml", end, True, text).because
    lacking = data.eos_token("sft", "chatml", end, False, text)
    assert lacking.value == "none" and f"lacks {end}" in lacking.because
    unknown = data.eos_token("sft", "./own.jinja", "", None, text)
    assert unknown.value == "none" and "not known" in unknown.because


@pytest.mark.parametrize(
    ("eval_every", "total_steps", "updates", "share"),
    [(0.2, 1_000, 1, "60%"), (0.1, 6, 1, "50%"), (0.2, 4, 1, "75%"), (0.2, 9, 1, "67%"), (0.1, 40, 8, "60%")],
)
def test_the_share_of_a_run_is_that_of_whole_steps(eval_every, total_steps, updates, share) -> None:
    """Of 6 steps a tenth is one, and three evaluations are half of the run; of generations, whole ones."""
    choice = evaluation.early_stopping_patience("sft", 3, eval_every, eval_every, total_steps, updates)
    assert choice.because.startswith(f"{share} of the run without")


def test_no_share_of_a_run_is_more_than_the_run() -> None:
    assert "as long as the run" in evaluation.early_stopping_patience("sft", 3, 0.5, 0.5, 100).because


def test_nothing_is_stopped_or_chosen_where_only_the_last_step_is_saved() -> None:
    stopping = evaluation.early_stopping_patience("sft", 3, 0.2, 1.0, 9)
    assert (stopping.value, stopping.accepts) == (0, (0, 0))
    assert "the last step is the result" in evaluation.best_metric("sft", 0.2, 1.0, 9).because
