"""A loop of the bundle's own tokenizes in as many processes, and lets its ranks wait as long, as the Trainer would."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.axes.loops import LOOPS
from recipec.axes.strategies import ONE_PROCESS

DISTRIBUTED = {
    "accelerate": {"hardware.gpu": "h100", "hardware.gpus_per_node": 8, "hardware.cpu_cores": 48},
    "deepspeed": {"hardware.gpu": "rtx-4090", "hardware.gpus_per_node": 8, "hardware.cpu_cores": 48},
}
TIMEOUT = "timeout=timedelta(seconds=settings.ddp_timeout)"
STARTS = {
    "accelerate": f"kwargs_handlers=[InitProcessGroupKwargs({TIMEOUT})]",
    "deepspeed": f"init_distributed({TIMEOUT}",
}


def train(folder: Path, rows: int, loop: str, base: str = "lora-single", **more: object) -> str:
    recipe = with_key(BASES[base], "data.examples", rows)
    for key, value in {**DISTRIBUTED.get(loop, {}), **more, "train.loop": loop}.items():
        recipe = with_key(recipe, key, value)
    return texts(good(folder, recipe))["train.py"]


def values(text: str) -> dict[str, object]:
    """What training_config() sets to plain values."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    (made,) = (call for call in calls if getattr(call.func, "id", "") in ("Settings", "SFTConfig"))
    return {arg.arg or "": arg.value.value for arg in made.keywords if isinstance(arg.value, ast.Constant)}


def passes(text: str) -> list[ast.Call]:
    """The calls that go over all rows."""
    (function,) = (node for node in ast.parse(text).body if getattr(node, "name", "") == "tokenized")
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "attr", "") in ("map", "filter")]


@pytest.mark.parametrize("loop", ["accelerate", "deepspeed", "torch"])
@pytest.mark.parametrize(
    ("base", "more"),
    [("lora-single", {}), ("lora-single", {"data.overflow": "truncate"}), ("text", {"data.max_length": 1024})],
)
def test_many_rows_are_tokenized_in_as_many_processes_as_the_trainers(
    tmp_path: Path, loop: str, base: str, more: dict[str, object]
) -> None:
    text = train(tmp_path / loop, 3_000_000, loop, base, **more)
    assert passes(text)
    for call in passes(text):
        assert {arg.arg: ast.unparse(arg.value) for arg in call.keywords}["num_proc"] == "settings.dataset_num_proc"
    if loop in DISTRIBUTED:
        assert values(text)["dataset_num_proc"] == 48
    few = train(tmp_path / f"{loop}-few", 5_000, loop, base, **more)
    assert "num_proc=" not in few and len(passes(few)) == len(passes(text))


@pytest.mark.parametrize("loop", DISTRIBUTED)
@pytest.mark.parametrize(("rows", "seconds"), [(5_000, 1_800), (900_000_000, None)])
def test_other_ranks_wait_as_long_as_the_trainers(tmp_path: Path, loop: str, rows: int, seconds: int | None) -> None:
    """Of themselves accelerate and DeepSpeed wait 10 minutes, the Trainer of transformers half an hour."""
    text = train(tmp_path / loop, rows, loop)
    assert STARTS[loop] in text
    of_trainer = values(train(tmp_path / "trainer", rows, "trainer", **DISTRIBUTED[loop])).get("ddp_timeout")
    assert values(text)["ddp_timeout"] == (of_trainer or seconds) and (of_trainer is None) == (seconds == 1_800)


@pytest.mark.parametrize("loop", ["accelerate", "torch"])
def test_one_process_waits_for_no_other(tmp_path: Path, loop: str) -> None:
    text = train(tmp_path, 3_000_000, loop, **{"hardware.gpus_per_node": 1})
    assert "timeout" not in text and "timedelta" not in text


@pytest.mark.parametrize("name", [name for name, row in LOOPS.items() if row.own and row.engines == (ONE_PROCESS,)])
def test_a_loop_of_one_process_has_no_code_for_ranks(name: str) -> None:
    """BAD-091 refuses every strategy of several: what its file had for them would be emitted for no recipe."""
    source = Path(import_module(f"recipec.backends.loops.{name}").__file__ or "").read_text(encoding="utf-8")
    assert not re.search(r"strategy\.distributed|distributed\.\w+\(|DistributedDataParallel|no_sync", source)
