"""The loop on DeepSpeed's engine: its losses beside the Trainer's, its resume to the bit, and who asks DeepSpeed what.

The defects are those of the examples in the rule books: 002, Step 2 (accumulation, metrics of one rank, checkpoints).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from compiling import texts
from emitted_modules import load
from test_own_loops import SAME, STEPS, compiled, prepared, steps_of

from recipec.axes import STRATEGIES
from recipec.axes.strategies import DEEPSPEED
from recipec.verify.run import Rehearsal, log_history

GPU, ZERO = "rtx-4090", [name for name, row in STRATEGIES.items() if row.engine == DEEPSPEED]
FP32 = 'precision = "fp32"\nactivation_checkpointing = false\n'
NAMES = ("loss", "grad_norm", "learning_rate", "mean_token_accuracy", "num_tokens")
KILLED_AT = 3  # of STEPS: behind the first checkpoint


def on_zero(folder: Path, strategy: str, adaptation: str = "full") -> dict[str, str]:
    """The files of a bundle."""
    return texts(compiled(folder, "deepspeed", 2, GPU, f'strategy = "{strategy}"', adaptation))


def started(launch: Rehearsal, name: str, **patches) -> Path:
    """The output folder of a training."""
    output = launch.sandbox.outputs / name.partition("-")[0]
    arguments = ("--max-steps", STEPS, "--output-dir", str(output))
    ended = launch.start(name, "launch/prepare-and-train.sh", *arguments, **patches)
    assert ended.ok or patches, ended.tail()
    return output


@pytest.mark.executes
def test_the_losses_are_those_of_the_trainer(tmp_path: Path, of_the_trainer: list[dict], forked: None) -> None:
    whole = started(on_two_ranks(tmp_path), "whole")
    for step, planned in zip(steps_of(log_history(whole), *NAMES), steps_of(of_the_trainer, *NAMES), strict=True):
        assert step == pytest.approx(planned, rel=SAME, abs=SAME)


@pytest.mark.executes
@pytest.mark.matrix
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, forked: None) -> None:
    zero = on_two_ranks(tmp_path)
    whole = started(zero, "whole")
    started(zero, "killed", die_after=KILLED_AT)
    resumed = started(zero, "killed-resumed")
    assert log_losses(resumed) == log_losses(whole)
    saved = [(output / "model.safetensors").read_bytes() for output in (whole, resumed)]
    assert saved[0] == saved[1]


def on_two_ranks(folder: Path) -> Rehearsal:
    return prepared(folder, "deepspeed", 2, GPU, f'strategy = "zero3"\n{FP32}')


def log_losses(output: Path) -> list[tuple[float, ...]]:
    return steps_of(log_history(output), "loss", "grad_norm")


@pytest.mark.parametrize("strategy", ZERO)
def test_the_configuration_is_the_engines_own(tmp_path: Path, strategy: str) -> None:
    bundle = on_zero(tmp_path, strategy)
    config, shards = json.loads(bundle["configs/deepspeed.json"]), STRATEGIES[strategy].shards
    assert '"auto"' not in bundle["configs/deepspeed.json"]
    assert config["zero_optimization"]["stage"] == len(shards)
    assert "stage3_gather_16bit_weights_on_model_save" not in config["zero_optimization"]
    assert config["gradient_clipping"] == 1.0 and "optimizer" not in config and "scheduler" not in config
    started = yaml.safe_load(bundle["configs/accelerate.yaml"])
    assert "zero3_init_flag" not in started["deepspeed_config"]


@pytest.mark.parametrize("strategy", ZERO)
def test_only_zero_3_has_code_for_shards_of_weights(tmp_path: Path, strategy: str) -> None:
    bundle = on_zero(tmp_path, strategy)
    for name, part in (("train.py", "HfDeepSpeedConfig"), ("train.py", "ds_shape"), ("preflight.py", "ds_numel")):
        assert (part in bundle[name]) == STRATEGIES[strategy].shards_weights, part
    assert ("GatheredParameters" in bundle["checkpoints.py"]) == STRATEGIES[strategy].shards_weights


def test_adapters_are_saved_without_their_base(tmp_path: Path) -> None:
    adapters = on_zero(tmp_path / "lora", "zero3", "lora")
    assert "exclude_frozen_parameters=True" in adapters["checkpoints.py"]
    assert "if not weight.requires_grad" in adapters["checkpoints.py"]
    assert 'if group["params"]' in adapters["train.py"], "the engine drops empty groups, the schedule does not"
    assert "autocast_adapter_dtype=False" in adapters["train.py"], "shards stay in the type that they are made in"
    assert "exclude_frozen_parameters" not in on_zero(tmp_path / "full", "zero3")["checkpoints.py"]


def test_the_engine_takes_the_mean_of_a_step_once(tmp_path: Path) -> None:
    """The loss is divided by the tokens of the whole step, so that the engine must not divide by micro steps too."""
    train = on_zero(tmp_path, "zero2")["train.py"]
    assert "self.model.backward(loss * (self.ranks / trained), scale_wrt_gas=False)" in train
    assert "set_gradient_accumulation_boundary(place == len(batches))" in train
    assert "zero_grad" not in train and "clip_grad_norm" not in train and "no_sync" not in train


def test_fp16_is_scaled_by_the_engine_alone(tmp_path: Path) -> None:
    done = compiled(tmp_path, "deepspeed", 2, "v100-32gb", 'strategy = "zero2"\nprecision = "fp16"')
    assert json.loads(texts(done)["configs/deepspeed.json"])["fp16"] == {"enabled": True}
    assert "GradScaler" not in texts(done)["train.py"] + texts(done)["checkpoints.py"]
    assert "lr_scheduler=self.schedule" in texts(done)["train.py"], "it leaves the schedule out with a step"


@pytest.mark.executes
def test_a_result_of_shards_has_the_buffers_that_checkpoints_have(tmp_path: Path, monkeypatch) -> None:
    import torch

    bundle = on_zero(tmp_path / "recipe", "zero3")
    for name in ("checkpoints.py", "preflight.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    checkpoints = load(tmp_path / "checkpoints.py", monkeypatch)
    monkeypatch.setattr(checkpoints.distributed, "get_rank", lambda: 0)
    model = torch.nn.Linear(3, 2)
    model.register_buffer("scale", torch.ones(1))
    model.register_buffer("made_anew", torch.ones(1), persistent=False)
    assert checkpoints.whole_weights(model).keys() == {"weight", "bias", "scale"}
