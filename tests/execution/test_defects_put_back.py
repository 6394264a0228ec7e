"""Defects that bundles once had, put back by hand into what is emitted: verify, which runs the bundle, finds each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import Bundle, read_bundle
from recipec.verify.learn import check_resume, rows_to_learn
from recipec.verify.planted import check_planted
from recipec.verify.report import Check, VerifyReport
from recipec.verify.run import prepare_launch, read_json, run_bundle, type_problems
from recipec.verify.sandbox import make_sandbox

pytestmark = pytest.mark.executes

RECIPES = Path(__file__).parent / "recipes"
TOOL = {"name": "weather", "description": "The weather of a city", "parameters": {"type": "object", "properties": {}}}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Bern"}}}
RICH = """
[recipe]
name = "rich"
[goal]
task = "instruct"
[model]
name = "Qwen/Qwen3-0.6B"
[data]
train = "rich.jsonl"
max_length = 1024
reasoning = "keep"
ignore = ["id"]
[hardware]
gpu = "rtx-4090"
"""

FILES = """
[recipe]
name = "files"
[goal]
task = "instruct"
[model]
name = "Qwen/Qwen3-0.6B"
[data]
train = "train.jsonl"
eval = "eval.jsonl"
test = "test.jsonl"
max_length = 512
[hardware]
gpu = "rtx-4090"
"""


def rich(number: int) -> dict[str, Any]:
    """A row that carries all that rows may."""
    answers = [
        {"role": "assistant", "content": f"No {number}.", "weight": 0},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "20"},
        {"role": "assistant", "content": f"Yes {number}.", "reasoning_content": f"Think {number}."},
    ]
    asked = {"role": "user", "content": f"Is it warm, {number}?"}
    return {"messages": [asked, *answers], "tools": [TOOL], "system": "You help.", "id": number}


def bundle_of(recipe: Path, out: Path) -> Bundle:
    done = compile_recipe(recipe)
    assert done.lock is not None, done.diagnostics
    write_bundle(out, done.files, done.plan_json, done.lock)
    return read_bundle(out)


def put_back(script: Path, *changes: tuple[str, str]) -> None:
    """Replace every text by another one."""
    text = script.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, f"the test is out of date: {script.name} has no {old!r}"
        text = text.replace(old, new)
    script.write_text(text, encoding="utf-8")


def looked_at(bundle: Bundle, folder: Path) -> dict[str, Check]:
    """The checks of planted rows by their names without the stage."""
    folder.mkdir()
    report = VerifyReport("run")
    check_planted(make_sandbox(bundle, folder, 40), report)
    assert not report.not_run
    return {check.name.removeprefix("sft: "): check for check in report.checks}


def test_rows_that_lose_what_they_carry_are_found(tmp_path: Path, forked: None) -> None:
    """Fields dropped without a word, weights not read, and answers that are rows before the split (D1, D7)."""
    (tmp_path / "rich.jsonl").write_text("".join(f"{json.dumps(rich(number))}\n" for number in range(60)))
    (tmp_path / "rich.toml").write_text(RICH)
    bundle = bundle_of(tmp_path / "rich.toml", tmp_path / "out")
    fine = looked_at(bundle, tmp_path / "fine")
    assert all(check.ok for check in fine.values()), fine
    unread = "not in NOTHING]"
    put_back(
        bundle.root / "prepare_data.py",
        (f"if name not in read and value {unread}", 'if name == ""]'),
        (f"if name not in COLUMNS and value {unread}", 'if name == ""]'),
        ("return answers and 0 not in given", "return answers"),
        ('message["reasoning_content"] = told[0]', "pass"),
        ('made["tools"] = tools_of(row)', 'made["tools"] = None'),
        ("check_offered(made, row)", "pass"),
        ('"question": row["conversation"][-1]', '"question": digest(row["prompt"])'),
        ('"openings": row["conversation"]', '"openings": [digest(row["prompt"])]'),
    )
    found = looked_at(bundle, tmp_path / "broken")
    assert found.keys() == fine.keys() and not any(check.ok for check in found.values())
    assert "that have planted_by_verify in columns" in found["columns that nothing reads are refused by name"].detail
    lost = found["prepare_data.py loses nothing of a row"].detail
    for words in ("a thought of the row is lost", "a tool of the row is lost", "of weight 0 of the row is learned"):
        assert words in lost
    assert "are also in train.jsonl" in found["no conversation is in two splits"].detail


def test_a_resumed_run_that_sees_other_rows_and_adapters_in_16_bits_are_found(tmp_path: Path, forked: None) -> None:
    """transformers' own order of rows, which a checkpoint does not keep (A1); TRL's bf16 adapters (L2)."""
    bundle = bundle_of(RECIPES / "qlora.toml", tmp_path / "out")
    put_back(
        bundle.root / "train.py",
        ("    trainer._get_train_sampler = partial(SimilarLengths, trainer)", "    pass"),
        ("parameter.data = parameter.data.float()", "pass"),
    )
    (tmp_path / "sandbox").mkdir()
    sandbox, report = make_sandbox(bundle, tmp_path / "sandbox", rows_to_learn(bundle, 1)), VerifyReport("learn")
    launch = prepare_launch(sandbox, 1, True, report)
    assert sandbox.run("prepare", ["python", "prepare_data.py"], sandbox.environment({}), 120).ok
    check_resume(replace(launch, patches={**launch.patches, "first-step": True}), report)
    failed = {check.name.removeprefix("sft: "): check.detail for check in report.checks if not check.ok}
    assert failed.keys() == {
        "the resumed training goes on with the rows that are left",
        "the resumed training ends with the same weights",
    }
    assert "are left out" in failed["the resumed training goes on with the rows that are left"]
    (problem,) = type_problems(read_json(sandbox.outputs / "whole" / "first_step.json"))
    assert problem.startswith("of 28 tensors that the optimizer changes 28 are bfloat16 when its first step begins")


def test_a_training_without_all_rows_and_another_loss_in_evaluation_are_found(tmp_path: Path, forked: None) -> None:
    """train.py takes some of the prepared rows, at another rate, and saves what it began with (V1, V5); evaluate.py
    divides by too few tokens (V3)."""
    bundle = bundle_of(RECIPES / "sft-lora.toml", tmp_path / "out")
    trains, saves = "    trainer.train(resume_from_checkpoint=checkpoint)\n", "    trainer.save_model()\n"
    put_back(
        bundle.root / "train.py",
        ('train_dataset=rows["train"],', 'train_dataset=rows["train"].select(range(16)),'),
        (trains + saves, saves + trains),
        (
            "    config = training_config(args)\n",
            "    config = training_config(args)\n    config.learning_rate = 3e-5\n",
        ),
    )
    put_back(
        bundle.root / "evaluate.py",
        ('"perplexity": math.exp(loss / tokens)', '"perplexity": math.exp(1.1 * loss / tokens)'),
    )
    (tmp_path / "sandbox").mkdir()
    sandbox, report = make_sandbox(bundle, tmp_path / "sandbox", 160), VerifyReport("run")
    run_bundle(prepare_launch(sandbox, 1, False, report), report)
    failed = {check.name.removeprefix("sft: "): check.detail for check in report.checks if not check.ok}
    assert failed.keys() == {
        "evaluate.py scores the held-out rows by their loss",
        "evaluate.py scores the tokens that train.py learns",
        "the evaluations are there: before, after",
        "the result is the best checkpoint",
        "the steps change weights",
        "training uses the planned settings",
    }
    assert "train.py takes 16 of the" in failed["evaluate.py scores the tokens that train.py learns"]


def failed_by(bundle: Bundle, folder: Path) -> dict[str, str]:
    """The failing checks of a run, by their names without the stage."""
    folder.mkdir()
    sandbox, report = make_sandbox(bundle, folder, 160), VerifyReport("run")
    run_bundle(prepare_launch(sandbox, 1, False, report), report)
    return {check.name.partition(": ")[2]: check.detail for check in report.checks if not check.ok}


SHIFTED = """    collate = trainer.data_collator

    def shifted(rows):
        batch = collate(rows)
        batch["labels"] = batch["labels"].roll(1, 1)
        return batch

    trainer.data_collator = shifted
    trainer.args.max_grad_norm = 0.0
"""


def test_other_labels_settings_and_a_careless_evaluation_are_found(tmp_path: Path, forked: None) -> None:
    """Labels shifted by one, decay and clipping changed in main() (V7); dropout, chance and other rows in
    evaluate.py (V8)."""
    bundle = bundle_of(RECIPES / "sft-lora.toml", tmp_path / "out")
    guard, built = "    guard = RunGuard(", "    config = training_config(args)\n"
    put_back(bundle.root / "train.py", (guard, SHIFTED + guard), (built, f"{built}    config.weight_decay = 0.0\n"))
    put_back(
        bundle.root / "evaluate.py",
        ("return model.eval(), tokenizer", "return model.train(), tokenizer"),
        ("do_sample=False", "do_sample=True"),
        ('"test.jsonl"', '"eval.jsonl"'),
    )
    failed = failed_by(bundle, tmp_path / "sandbox")
    settings = failed["training uses the planned settings"]
    assert "weight_decay becomes 0.0" in settings and "max_grad_norm becomes 0.0" in settings
    assert "the weight decay of the optimizer is [0.0]" in failed["optimizer steps decay and clip as planned"]
    assert "have the label of another token" in failed["the model learns what train.jsonl holds"]
    careless = failed["evaluate.py scores and asks the held-out rows, without dropout and chance"]
    assert "with dropout" in careless and "by chance" in careless and "are not scored whole" in careless


PER_TOKEN = """    from types import MethodType

    def per_token(self, model, inputs, return_outputs):
        return type(self)._compute_loss(self, model, inputs, return_outputs) / inputs["completion_mask"].sum(1).max()

    trainer._compute_loss = MethodType(per_token, trainer)
"""


def test_another_loss_labels_that_are_flipped_and_a_last_checkpoint_are_found(tmp_path: Path, forked: None) -> None:
    """Log-probabilities per token where the plan sums them (V12), labels of KTO exchanged in main() (V15), and the
    last checkpoint saved instead of the best one (V16)."""
    bundle = bundle_of(RECIPES / "kto.toml", tmp_path / "out")
    guard, built = "    guard = RunGuard(", "    config = training_config(args)\n"
    flipped = '    rows = {name: part.map(lambda row: {"label": not row["label"]}) for name, part in rows.items()}\n'
    put_back(
        bundle.root / "train.py",
        (built, f"{built}{flipped}    config.load_best_model_at_end = False\n"),
        (guard, PER_TOKEN + guard),
    )
    failed = failed_by(bundle, tmp_path / "sandbox")
    assert "answers have the other label than in train.jsonl" in failed["the model learns what train.jsonl holds"]
    assert "by the loss of Kahneman-Tversky optimization with beta 0.1" in failed["the loss is the planned one"]
    assert "saved tensors are not those of checkpoint-" in failed["the result is the best checkpoint"]
    assert "load_best_model_at_end becomes False" in failed["training uses the planned settings"]


LARGER = """    from types import MethodType

    def larger(self, *given, **more):
        return 100 * type(self).compute_loss(self, *given, **more)

    trainer.compute_loss = MethodType(larger, trainer)
"""


@pytest.mark.matrix
def test_a_supervised_loss_that_is_too_large_is_found(tmp_path: Path, forked: None) -> None:
    """A hundred times as large: clipped gradients show nothing of it (V12)."""
    bundle = bundle_of(RECIPES / "sft-lora.toml", tmp_path / "out")
    guard = "    guard = RunGuard("
    put_back(bundle.root / "train.py", (guard, LARGER + guard))
    failed = failed_by(bundle, tmp_path / "sandbox")
    assert "by the loss of supervised fine-tuning" in failed["the loss is the planned one"]


@pytest.mark.matrix
def test_leaks_between_conversations_and_stages_and_flipped_labels_are_found(tmp_path: Path, forked: None) -> None:
    """prepare_data.py holds out a greeting and drops no leaks behind a random split (V13), nor what a later stage holds
    out (V14); it exchanges the labels of KTO (V15)."""
    bundle = bundle_of(RECIPES / "sft-dpo.toml", tmp_path / "stages")
    put_back(
        bundle.root / "prepare_data.py",
        ('splits["train"] = drop_leaks(', "drop_leaks("),
        ("NEVER if row[-1] in begun else row[-1]", "row[-1]"),
    )
    stopped = looked_at(bundle, tmp_path / "stopped")["planted rows are prepared"]
    assert "training rows ask what held-out rows ask, more than 5%" in stopped.detail
    put_back(bundle.root / "prepare_data.py", ("    check_leaks(stage, ", "    print(stage, "))
    found = looked_at(bundle, tmp_path / "leaking")
    assert "questions that a later stage holds out are learned" in found[JUDGED_LATER].detail
    assert "answer what one asks that is held out" in found["no conversation is in two splits"].detail
    bundle = bundle_of(RECIPES / "kto.toml", tmp_path / "labels")
    put_back(bundle.root / "prepare_data.py", ('"label": wanted,', '"label": not wanted,'))
    flipped = looked_at(bundle, tmp_path / "flipped")["kto: prepare_data.py loses nothing of a row"]
    assert "an answer that is labeled True has another label" in flipped.detail


JUDGED_LATER = "it learns nothing that a later stage is judged by"


def test_cut_texts_swapped_answers_and_kept_leaks_are_found(tmp_path: Path, forked: None) -> None:
    """prepare_data.py cuts texts and keeps rows that are held out elsewhere, rows.py swaps answers (V9)."""
    bundle = bundle_of(RECIPES / "dpo.toml", tmp_path / "pairs")
    put_back(bundle.root / "rows.py", ('answer == "rejected"', 'answer == "chosen"'))
    swapped = looked_at(bundle, tmp_path / "swapped")["dpo: prepare_data.py loses nothing of a row"]
    assert "an answer is taken for the other one" in swapped.detail
    files = {"train": range(60), "eval": range(60, 80), "test": range(80, 100)}
    for name, numbers in files.items():
        rows = [{"prompt": f"What is {n}?", "completion": f"It is number {n}."} for n in numbers]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "files.toml").write_text(FILES)
    bundle = bundle_of(tmp_path / "files.toml", tmp_path / "out")
    fine = looked_at(bundle, tmp_path / "fine")
    assert all(check.ok for check in fine.values()), fine
    put_back(
        bundle.root / "prepare_data.py",
        ("(asked in held_out for asked", "(False for asked"),
        ("    return row[column]\n", "    return row[column][:300]\n"),
    )
    found = looked_at(bundle, tmp_path / "broken")
    assert "the end of an answer of the row is lost" in found["prepare_data.py loses nothing of a row"].detail
    assert "are also in train.jsonl" in found["no conversation is in two splits"].detail
