"""Under FSDP one rank of a node reads the weights: the others hold what it read once FSDP has handed it out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key
from test_packed_attention import model
from tiny_models import save

from recipec.catalog.model_types import MODEL_TYPES

pytestmark = pytest.mark.executes

RUN = """
import os, sys
from types import SimpleNamespace
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
from transformers import AutoModelForCausalLM, PreTrainedModel
MODEL, SFTConfig = sys.argv[1], SimpleNamespace
exec(open(sys.argv[2]).read())
PartialState(cpu=True)
torch.distributed.barrier()
model = load_model(SimpleNamespace(model_init_kwargs={"dtype": "float32", "attn_implementation": "eager"}))
plugin = FullyShardedDataParallelPlugin(
    fsdp_version=2, cpu_ram_efficient_loading=True, auto_wrap_policy="transformer_based_wrap",
    transformer_cls_names_to_wrap=["LlamaDecoderLayer"], mixed_precision_policy=None,
)
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
plugin.set_auto_wrap_policy(model)
rank = PartialState().process_index
stand_in = SimpleNamespace(
    state=SimpleNamespace(fsdp_plugin=plugin), is_main_process=rank == 0, mixed_precision="no",
    device=torch.device("cpu"), torch_device_mesh=None,
)
model = fsdp2_prepare_model(stand_in, model)
whole = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager")
for name, parameter in model.named_parameters():
    assert torch.equal(parameter.full_tensor(), whole.get_parameter(name)), name
for name, buffer in model.named_buffers():
    assert torch.equal(buffer, whole.get_buffer(name)), name
ids = torch.tensor([[3, 4, 5, 6]])
with torch.no_grad():
    assert torch.equal(model(input_ids=ids).logits, whole(input_ids=ids).logits)
assert len({id(p) for p in model.parameters()}) == len({id(p) for p in whole.parameters()})
print("equal on rank", rank)
"""


def emitted(folder: Path) -> str:
    """The function of a bundle whose ranks would each hold fp32 weights."""
    script = texts(good(folder, with_key(BASES["full-fsdp"], "model.name", "Qwen/Qwen3-8B")))["train.py"]
    start = script.index("def load_model(")
    assert "model=load_model(config)," in script
    return script[start : script.index("\ndef main(")]


@pytest.mark.parametrize("tied", [False, True])
def test_every_rank_has_the_weights_of_the_first(tmp_path: Path, tied: bool) -> None:
    save(tmp_path / "model", 1, model_type="llama", hidden_size=32, vocab_size=96, tie_word_embeddings=tied)
    (tmp_path / "load_model.py").write_text(emitted(tmp_path / "recipe"))
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(tmp_path / name) for name in ("run.py", "model", "load_model.py")]
    fsdp = {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | fsdp)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("equal on rank") == 2


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_type_says_whether_its_checkpoint_holds_buffers(model_type: str) -> None:
    """FSDP hands out parameters alone: accelerate 1.15 broadcasts no buffers."""
    shape = model(model_type, "eager")
    stored = shape.state_dict().keys() & dict(shape.named_buffers()).keys()
    assert MODEL_TYPES[model_type].stored_buffers is bool(stored)
