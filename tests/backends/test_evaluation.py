"""Every stage is measured by its own held-out rows, against the model that it began with."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, good, shape, texts, with_key, without

from recipec.backends.methods import BACKENDS
from recipec.cli.plan import plan_text


def constant(script: str, name: str) -> str:
    """The code of a constant."""
    assigned = (node for node in ast.parse(script).body if isinstance(node, ast.Assign))
    return next(ast.unparse(node.value) for node in assigned if ast.unparse(node.targets[0]) == name)


@pytest.mark.parametrize("adaptation", ["lora", "full"])
def test_a_stage_is_compared_with_the_model_that_it_began_with(tmp_path: Path, adaptation: str) -> None:
    recipe = with_key(BASES["sft-dpo"], "model.name", "Qwen/Qwen2.5-0.5B")
    bundle = texts(good(tmp_path, with_key(recipe, "train.adaptation", adaptation)))
    assert "evaluate.py" not in bundle
    for folder, stage in (("stages/1-sft", "sft"), ("stages/2-dpo", "dpo")):
        evaluation, training = bundle[f"{folder}/evaluate.py"], bundle[f"{folder}/train.py"]
        assert constant(evaluation, "BASE") == constant(training, "MODEL")
        assert f"'data' / '{stage}' / 'test.jsonl'" in constant(evaluation, "ROWS")
        assert constant(evaluation, "RESULTS").endswith(f"'{stage}'")


def test_a_model_that_training_writes_is_measured_again_when_it_changes() -> None:
    bundle = texts(shape("sft-dpo"))
    assert "def which_model" in bundle["stages/2-dpo/evaluate.py"]
    assert "def which_model" not in bundle["stages/1-sft/evaluate.py"]


def test_a_copied_model_is_known_and_a_changed_one_is_not(tmp_path: Path) -> None:
    """By its content: a copy has other times, and weights that were merged differ within a file of the same size."""
    script = texts(shape("sft-dpo"))["stages/2-dpo/evaluate.py"]
    names: dict[str, Any] = {"Path": Path, "hashlib": hashlib}
    exec(
        next(ast.unparse(node) for node in ast.parse(script).body if getattr(node, "name", "") == "which_model"), names
    )
    model, copy = tmp_path / "model", tmp_path / "copy"
    model.mkdir()
    (model / "config.json").write_text("{}")
    weights = bytearray(os.urandom(5 * 2**20))
    (model / "model.safetensors").write_bytes(weights)
    shutil.copytree(model, copy, copy_function=shutil.copyfile)
    os.utime(copy / "config.json", ns=(1, 1))
    assert names["which_model"](copy) == names["which_model"](model)
    weights[2**20 : 4 * 2**20] = bytes(3 * 2**20)
    (copy / "model.safetensors").write_bytes(weights)
    assert names["which_model"](copy) != names["which_model"](model)
    (copy / "finished.json").write_text('{"result": "one"}')
    assert names["which_model"](copy) == b'{"result": "one"}'


def test_answers_are_measured_again_when_a_file_that_scores_them_changes(tmp_path: Path) -> None:
    stages = with_key(without(BASES["ppo"], "alignment.reward"), "data.preferences", "pairs.jsonl")
    judged = with_key(BASES["ppo"], "alignment.reward", {"model": "Qwen/Qwen2.5-1.5B-Instruct"})
    for number, recipe in enumerate([stages, judged, BASES["ppo"], BASES["tools"]]):
        bundle = texts(good(tmp_path / str(number), recipe))
        folder = next(path for path in bundle if path.endswith("rewards.py")).removesuffix("rewards.py")
        for name in ("rewards.py", "judge.py", "tools.py"):
            named = f'Path(__file__).with_name("{name}"),\n' in bundle[f"{folder}evaluate.py"]
            assert named is (f"{folder}{name}" in bundle), name


def test_a_bundle_says_how_it_is_moved_and_a_first_look_is_merged() -> None:
    readme = texts(shape("lora-single"))["README.md"]
    assert "To move or copy this bundle" in readme and "add `--quick` to the second command" in readme


def test_sums_that_favor_short_answers_are_said_to() -> None:
    text = texts(shape("dpo-full"))["evaluate.py"]
    assert "short answers have the advantage" in text
    assert [name for name in BACKENDS["dpo"].measure.metrics if f'"{name}"' not in text] == []


@pytest.mark.parametrize("base", ["grpo", "ppo", "on-policy-distill"])
def test_an_answer_to_each_row_is_written_once(base: str) -> None:
    """The samples are those of the answers that are judged."""
    text = texts(shape(base))
    text = next(text for name, text in text.items() if name.endswith("evaluate.py") and "said" in text)
    assert text.count("= answers(model") == 1 and "samples = show(tokenizer, rows, said)" in text


def test_processes_share_the_rows_that_are_answered(tmp_path: Path) -> None:
    """However many are answered at once: a batch of all rows would leave them to one process."""
    recipe = with_key(with_key(BASES["grpo"], "hardware.gpus_per_node", 4), "train.strategy", "ddp")
    text = next(text for name, text in texts(good(tmp_path, recipe)).items() if name.endswith("evaluate.py"))
    space = {"PartialState": lambda: SimpleNamespace(process_index=1, num_processes=4), "ANSWERS_AT_ONCE": 128}
    (function,) = (node for node in ast.parse(text).body if getattr(node, "name", "") == "groups")
    exec(ast.unparse(function), space)
    assert [list(places) for places in space["groups"](10)] == [[1, 5, 9]]
    space["ANSWERS_AT_ONCE"] = 2
    assert [list(places) for places in space["groups"](10)] == [[1, 5], [9]]


def test_mean_rewards_are_printed_with_their_standard_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 4 rewards with a standard deviation of 0.5 it is 0.25; a loss has none."""
    text = next(text for name, text in texts(shape("grpo")).items() if name.endswith("evaluate.py"))
    functions = [node for node in ast.parse(text).body if getattr(node, "name", "") in ("compare", "standard_error")]
    space: dict[str, Any] = {"stdev": stdev, "PartialState": lambda: SimpleNamespace(print=print)}
    exec("\n".join(map(ast.unparse, functions)), space)
    error = space["standard_error"]([0.0, 0.0, 0.75**0.5, 0.75**0.5])
    known = {"before": {"mean_reward": 0.25, **error, "prompt_loss": 2.0}, "after": {"mean_reward": 0.5}}
    space["compare"](known, *["after"] * (len(functions[0].args.args) - 1))
    assert capsys.readouterr().out.splitlines() == [
        "mean_reward: 0.2500 +- 0.2500 before, 0.5000 after",
        "prompt_loss: 2.0000 before",
    ]
    assert space["standard_error"]([1.0]) == {}


def test_workers_load_nothing_where_the_trainer_reads_prompts_itself() -> None:
    """Neither train.py nor the plan speaks of them then."""
    for base, loads in (("ppo", False), ("grpo", True)):
        found = shape(base)
        train = next(text for name, text in texts(found).items() if name.endswith("train.py"))
        stage = found.plan.stages[0]
        assert ("dataloader_" in train) is loads
        assert bool(stage.needs.loader_cores_per_gpu) is loads and ("pin_memory" in stage.decisions) is loads
        readme = next(text for name, text in texts(found).items() if name == "README.md")
        assert ("cores for the data" in readme) is loads
        assert ("for the data loader" in plan_text(json.loads(found.plan_json))) is loads


@pytest.mark.parametrize("base", ["lora-single", "distill"])
def test_models_whose_rows_are_padded_attend_without_the_kernel_of_packed_ones(tmp_path: Path, base: str) -> None:
    """evaluate.py registers no kernel: no model that it loads may name it, and a teacher is one of them."""
    files = texts(good(tmp_path, with_key(BASES[base], "train.attention", "torch_varlen")))
    assert 'attn_implementation="torch_varlen"' in files["train.py"].replace('": "', '="')
    assert "torch_varlen" not in files["evaluate.py"]


@pytest.mark.parametrize("base", ["qlora", "lora-int8", "lora-single"])
def test_a_merged_model_is_scored_as_the_next_stage_stores_it(tmp_path: Path, base: str) -> None:
    """In few bits it is merged into the original weights, and finds room where training did; a last one is exact."""
    recipe = with_key(with_key(BASES[base], "goal.task", "align"), "data.preferences", "pairs.jsonl")
    bundle, few_bits = texts(good(tmp_path, recipe)), base != "lora-single"
    for folder, stored_again in (("stages/1-sft", few_bits), ("stages/2-dpo", False)):
        evaluation, merge = bundle[f"{folder}/evaluate.py"], bundle[f"{folder}/merge_adapter.py"]
        assert ("_config()," in evaluation) is stored_again
        assert ("base.dequantize(" in merge) is (few_bits and not stored_again)
        assert ("into the original weights" in " ".join(merge.split())) is stored_again
    assert '1-sft/evaluate.py" merged' in bundle["launch/local.sh"]
    assert ("rounds most of what was" in bundle["README.md"]) is few_bits
