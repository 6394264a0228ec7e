"""packed_weights.py on two ranks: what is sharded computes what the whole 4-bit base computes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

SHARDED = with_key(BASES["qlora"], "hardware", {"gpu": "rtx-4090", "gpus_per_node": 2})
SHARDED = with_key(SHARDED, "train", {"adaptation": "qlora", "strategy": "fsdp"})
RANKS = 2
FEATURES, OUTPUTS = 64, 33  # as many scales as outputs, which two ranks cannot share equally
WORKER = f"""
import copy, json, os, sys
import torch
import torch.distributed as dist
from bitsandbytes.nn import Linear4bit
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from packed_weights import packed_layers, shard_packed_weights


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = Linear4bit({FEATURES}, {OUTPUTS}, compute_dtype=torch.bfloat16, quant_type="nf4")
        self.trained = nn.Linear({OUTPUTS}, {FEATURES}, bias=False)

    def forward(self, inputs):
        return inputs + self.trained(self.base(inputs))


dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(Block(), Block()).to("cpu")  # quantizes
for layer in packed_layers(model):
    layer.bias.requires_grad_(False)
    layer.support_avx512bf16_for_cpu = False
inputs = torch.randn(4, {FEATURES}, dtype=torch.bfloat16)
whole = copy.deepcopy(model).to(torch.bfloat16)
wanted = whole(inputs)
wanted.square().mean().backward()

shard_packed_weights(model, torch.device("cpu"))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
for block in model:
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
held = [tensor for layer in packed_layers(model) for tensor in (layer.weight, layer.scales)]
facts = {{
    "sharded": all(isinstance(tensor, DTensor) for tensor in held),
    "types": sorted({{str(tensor.dtype) for tensor in held}}),
    "bytes": [tensor.to_local().numel() for tensor in held],
    "kept": sum(layer.quant_state.absmax.numel() for layer in packed_layers(model)),
}}
found = model(inputs)
found.square().mean().backward()
facts["same_outputs"] = torch.equal(found, wanted)
gradients = [block.trained.weight.grad.full_tensor().to(torch.bfloat16) for block in model]
facts["same_gradients"] = all(
    torch.equal(mine, block.trained.weight.grad) for mine, block in zip(gradients, whole, strict=True)
)
open(f"facts-{{dist.get_rank()}}.json", "w").write(json.dumps(facts))
dist.barrier()  # a rank that leaves early can break the connections of the other
dist.destroy_process_group()
"""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.executes
def test_sharded_weights_compute_what_whole_ones_do(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, SHARDED))
    (tmp_path / "packed_weights.py").write_text(bundle["packed_weights.py"], encoding="utf-8")
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    command, environment = [sys.executable, "worker.py"], {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(RANKS)}
    ranks = [subprocess.Popen(command, cwd=tmp_path, env=environment | {"RANK": str(rank)}) for rank in range(RANKS)]
    assert [process.wait(timeout=120) for process in ranks] == [0] * RANKS
    facts = [json.loads((tmp_path / f"facts-{rank}.json").read_text()) for rank in range(RANKS)]
    for rank, found in enumerate(facts):
        assert found["sharded"] and found["types"] == ["torch.uint8"] and found["kept"] == 0
        packed, scales = FEATURES * OUTPUTS // 2 // RANKS, (17, 16)[rank]
        assert found["bytes"] == [packed, scales] * 2
        assert found["same_outputs"] and found["same_gradients"]
