"""What the shim changes, tried in clean processes: without the row it fails, with it the library does what is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recipec.verify.process import clean_environment
from recipec.verify.sandbox import SHIM, free_port

CONFIG = """
from transformers import TrainingArguments
config = TrainingArguments(output_dir="out", {arguments})
print({shown})
"""
FSDP = """
import os
os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29631",
    "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "ACCELERATE_USE_CPU": "true"}
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin
accelerator = Accelerator(cpu=True, fsdp_plugin=FullyShardedDataParallelPlugin())
print(accelerator.distributed_type.value)
"""
DEEPSPEED = """
from accelerate.utils.deepspeed import HfDeepSpeedConfig
print(HfDeepSpeedConfig({"gradient_accumulation_steps": 16, "zero_optimization": {"stage": 2}}).config)
"""
COLLECTIVES = """
from importlib import import_module
from deepspeed.accelerator import get_accelerator
backend = import_module("deepspeed.comm.torch")
builder = get_accelerator().create_op_builder("ShareMemCommBuilder")
type(builder).load = lambda self: "compiled"
print("all-reduce for CPUs:", backend.build_shm_op())
"""
ATTENTION = """
import torch
from transformers import AutoConfig, AutoModelForCausalLM
config = AutoConfig.for_model("llama", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    vocab_size=32)
AutoModelForCausalLM.from_config(config).save_pretrained("tiny")
model = AutoModelForCausalLM.from_pretrained("tiny", attn_implementation="flash_attention_2")
print(model.config._attn_implementation)
"""
HUB = """
import json, pathlib
pathlib.Path("rows.jsonl").write_text(json.dumps({"text": "hello"}) + "\\n")
from datasets import load_dataset
print(load_dataset("org/rows", None, split="train[:10%]", revision=None)[0])
from datasets import load_dataset_builder
print(load_dataset_builder("org/rows", None, revision=None).hash)
"""
FOUR_BIT = """
import torch
from bitsandbytes.nn import Linear4bit
layer = Linear4bit(64, 64, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4").to("cpu")
with torch.no_grad():
    layer.eval()(torch.ones(1, 64, dtype=torch.bfloat16))
given = torch.ones(1, 64, dtype=torch.bfloat16, requires_grad=True)
layer.train()(given).sum().backward()
print("reached", given.grad is not None)
"""
VARLEN = """
import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention
torch.manual_seed(0)
states = [torch.randn(9, heads, 8, dtype=torch.bfloat16, requires_grad=True) for heads in (4, 2, 2)]
begins, weights = torch.tensor([0, 4, 9], dtype=torch.int32), torch.randn(9, 4, 8)
together = varlen_attn(*states, begins, begins, 5, 5, window_size=(2, 0), enable_gqa=True)
behind = torch.arange(5)[:, None] - torch.arange(5)
seen = (behind >= 0) & (behind <= 2)
parts = []
for start, end in ((0, 4), (4, 9)):
    one = [part[start:end].transpose(0, 1) for part in states]
    mask = seen[: end - start, : end - start]
    parts.append(scaled_dot_product_attention(*one, attn_mask=mask, enable_gqa=True).transpose(0, 1))
pairs = [(together, torch.cat(parts))]
pairs += list(zip(*(torch.autograd.grad((found * weights).sum(), states) for found in pairs[0])))
print("far apart:", [place for place, (one, other) in enumerate(pairs) if (one - other).abs().max() > 0.05])
try:
    varlen_attn(*(part.float() for part in states), begins, begins, 5, 5, window_size=(-1, 0), enable_gqa=True)
except RuntimeError as error:
    print(error)
"""
ROUNDED = """
import torch
from bitsandbytes.nn import Linear8bitLt
layer = Linear8bitLt(8, 4, bias=False, has_fp16_weights=False, threshold=6.0).to("cpu")
inputs = torch.linspace(0.1, 1, 8).view(1, 8)
trained, evaluated = (layer.train(mode)(inputs) for mode in (True, False))
print("inputs are rounded:", torch.equal(trained, evaluated))
"""
DISK = "import shutil\n_, _, free = shutil.disk_usage('.')\nprint(free == shutil.disk_usage('.').free >= 2**60)"
MEMORY = "import torch\nprint(torch.accelerator.max_memory_allocated(), torch.accelerator.device_count())"
CPU = {"arguments": {"use_cpu": True}}
FORMATS = CONFIG.format(arguments="bf16=True, tf32=True", shown="config.bf16")
COMPILER = CONFIG.format(arguments="torch_compile=True", shown="config.torch_compile_backend")
LIMIT = CONFIG.format(
    arguments="gradient_accumulation_steps=64, eval_steps=2", shown="config.gradient_accumulation_steps"
)

# what a script prints without and with patches; None: it fails
CASES: dict[str, tuple[str, dict[str, Any], str | None, str]] = {
    "number formats": (FORMATS, CPU | {"number-formats": True}, None, "True"),
    "compiler": (COMPILER, {"arguments": {"torch_compile_backend": "aot_eager"}}, "inductor", "aot_eager"),
    "limits": (LIMIT, {"limits": {"gradient_accumulation_steps": 8}}, "64", "8"),
    "disk": (DISK, {"disk-space": True}, "False", "True"),
    "memory": (MEMORY, {"memory-statistics": True}, None, "0 0"),
    "deepspeed": (DEEPSPEED, {"deepspeed-limits": {"gradient_accumulation_steps": 2}}, "steps': 16", "steps': 2"),
    "collectives": (COLLECTIVES, {"plain-collectives": True}, "CPUs: compiled", "CPUs: None"),
    "attention": (ATTENTION, {"attention": "sdpa"}, None, "sdpa"),
    "varlen": (VARLEN, {"varlen-kernel": True}, None, "far apart: []\nFlashAttention only support fp16 and bf16"),
    "hub data": (HUB, {"hub-data": {"org/rows None train[:10%]": "rows.jsonl"}}, None, "{'text': 'hello'}\nthat of"),
    "8-bit layers": (ROUNDED, {"rounded-products": True}, "rounded: False", "rounded: True"),
    "fsdp": (FSDP, {"fsdp-state": True}, "MULTI_CPU", "FSDP"),
}


def run(script: str, patches: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(folder) | {"HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu"}
    environment |= {"PYTHONPATH": str(SHIM), "CPU_STAND_IN": json.dumps(patches), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", CASES)
def test_a_patch_changes_what_the_library_does(tmp_path: Path, name: str) -> None:
    script, patches, _, expected = CASES[name]
    patched = run(script, patches, tmp_path)
    assert expected in patched.stdout, patched.stderr


@pytest.mark.matrix
@pytest.mark.parametrize("name", CASES)
def test_without_the_patch_the_library_does_otherwise(tmp_path: Path, name: str) -> None:
    script, _, without, expected = CASES[name]
    stock = run(script, {}, tmp_path)
    if without is None:
        assert stock.returncode != 0 or expected not in stock.stdout
    else:
        assert without in stock.stdout, stock.stderr


GATHERS = """
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
for _ in range(40):
    given, gathered = torch.ones(1000), torch.empty(2000)
    given.note = gathered.note = object()
    distributed.all_gather_into_tensor(gathered, given, async_op=True)
del given, gathered
distributed.destroy_process_group()
"""


def test_ranks_end_well_whose_threads_still_hold_tensors(tmp_path: Path) -> None:
    """Without the wait at the end both are aborted."""
    environment = clean_environment(tmp_path) | {"PYTHONPATH": str(SHIM), "CPU_STAND_IN": "{}", "WORLD_SIZE": "2"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-W", "ignore", "-c", GATHERS]
    ranks = [
        subprocess.Popen(command, env=environment | {"RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    ends = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], ends


def test_the_gpus_of_a_server_are_counted_whatever_else_is_said_of_the_device(tmp_path: Path) -> None:
    script = tmp_path / "serve_answers.py"
    script.write_text("import torch\nprint(torch.accelerator.device_count())")
    patches = {"shared-gpus": 3, "memory-statistics": True}
    environment = clean_environment(tmp_path) | {"PYTHONPATH": str(SHIM), "CPU_STAND_IN": json.dumps(patches)}
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr


def test_arguments_of_one_script_are_not_another_s(tmp_path: Path) -> None:
    patches = {"script-arguments": {"stages/1-sft/train.py": {"learning_rate": 0.5}}}
    environment = clean_environment(tmp_path) | {"PYTHONPATH": str(SHIM), "CPU_STAND_IN": json.dumps(CPU | patches)}
    for folder, expected in (("1-sft", "0.5"), ("2-dpo", "0.25")):
        script = tmp_path / "stages" / folder / "train.py"
        script.parent.mkdir(parents=True)
        script.write_text(CONFIG.format(arguments="learning_rate=0.25", shown="config.learning_rate"))
        done = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.stdout.strip() == expected, done.stderr


def test_a_gradient_passes_a_4_bit_layer_after_an_evaluation(tmp_path: Path) -> None:
    """Without the row it does not where the CPU has AVX512-BF16; elsewhere it does anyway."""
    from bitsandbytes.functional import has_avx512bf16

    assert f"reached {not has_avx512bf16()}" in run(FOUR_BIT, {}, tmp_path).stdout
    assert "reached True" in run(FOUR_BIT, {"four-bit-kernel": True}, tmp_path).stdout


COUNTING = """
import pathlib, sys, types
from cpu_stand_in.learning import learned_tokens
class Trainer:
    args = types.SimpleNamespace(should_save=True, output_dir=".", max_length=4)
    processing_class = None
    train_dataset, eval_dataset = [1, 2, 3], [1, 2]
    def train(self):
        print("trained")
def encode(row, tokenizer, answer="one"):
    mask = [0, 1, 1] if answer == "one" else [0, 1, 1, 1, 1]
    return mask, mask
sys.modules["rows"] = types.SimpleNamespace(encode=encode, trained_tokens=lambda rows: 5 * len(rows))
for split in ("train", "eval"):
    pathlib.Path(f"{split}.jsonl").write_text('{}\\n{}\\n{}\\n')
DATA, sys.argv = pathlib.Path("."), ["/bundle/stages/2-dpo/train.py"]
module = types.SimpleNamespace(Trainer=Trainer)
learned_tokens(module, {"stages/1-sft/train.py": {}, "stages/2-dpo/train.py": %s})
Trainer().train()
print(pathlib.Path("learned_tokens.json").read_text())
"""


@pytest.mark.parametrize(
    ("how", "evaluated"),
    [
        ({"answers": [[]], "all": False, "eval_rows": 2}, 2),
        ({"answers": [["one"], ["two"]], "all": False, "eval_rows": 2}, 2 + 3),
        ({"answers": [["one"], ["two"]], "all": True, "eval_rows": 2}, 3 + 4),
    ],
)
def test_tokens_are_counted_as_evaluation_takes_them(tmp_path: Path, how: dict[str, Any], evaluated: int) -> None:
    """Of the rows of each file, cut at max_length; of those of evaluations no more than are evaluated."""
    done = run(COUNTING % how, {}, tmp_path)
    said, found = done.stdout.splitlines()
    of_split = {
        split: {"rows": rows, "rows_of_file": rows, "trained": 5 * rows, "evaluated": evaluated * rows}
        for split, rows in (("train", 3), ("eval", 2))
    }
    assert (said, json.loads(found)) == ("trained", of_split), done.stderr


def test_recipec_cannot_be_imported(tmp_path: Path) -> None:
    import recipec

    script = f"import sys\nsys.path.append({str(Path(recipec.__file__).parents[1])!r})\nimport recipec.verify"
    done = run(script, {}, tmp_path)
    assert "a bundle runs without it" in done.stderr


def test_without_a_request_the_shim_does_nothing(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path) | {"PYTHONPATH": str(SHIM), "PYTHONDONTWRITEBYTECODE": "1"}
    script = "import sys; print('cpu_stand_in' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
