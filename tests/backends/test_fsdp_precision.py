"""What FSDP2 does to the numbers that a model returns."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as distributed
from accelerate.utils import FullyShardedDataParallelPlugin
from compiling import BASES, good, texts, with_key
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

SEQUENCE = -300.3  # a log-probability of an answer: bf16 knows -300 and -302 around it


class Scores(nn.Module):
    """A model whose loss is computed in fp32, as TRL's heads do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"log_probs": torch.full((2,), SEQUENCE) + 0.0 * self.layer(inputs).float().sum()}


@pytest.fixture
def one_rank():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def emitted_policy(tmp_path, **changed) -> MixedPrecisionPolicy:
    recipe = with_key(BASES["full-fsdp"], "train.precision", changed["precision"])
    line = re.search(r"^    policy = (.*)$", texts(good(tmp_path, recipe))["train.py"], re.M)
    assert line
    return eval(line[1], {"MixedPrecisionPolicy": MixedPrecisionPolicy, "torch": torch})


def returned(policy: MixedPrecisionPolicy) -> torch.Tensor:
    model = fully_shard(Scores(), mp_policy=policy)
    return model(torch.ones(1, 4))["log_probs"]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_log_probability_is_not_rounded(one_rank, tmp_path, precision):
    policy = emitted_policy(tmp_path, precision=precision)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert (policy.param_dtype, policy.reduce_dtype) == (dtype, dtype)
    assert returned(policy).tolist() == pytest.approx([SEQUENCE] * 2, abs=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_the_ranks_reduce_gradients_as_accelerate_does(tmp_path, precision):
    """The plan counts accelerate's traffic: only the type of what a model returns is another one."""
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    plugin.set_mixed_precision(precision)
    emitted, own = emitted_policy(tmp_path, precision=precision), plugin.mixed_precision_policy
    assert (emitted.param_dtype, emitted.reduce_dtype) == (own.param_dtype, own.reduce_dtype)


def test_accelerates_own_policy_rounds_it(one_rank):
    """The reason for the lines: without it they can go."""
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    plugin.set_mixed_precision("bf16")
    assert returned(plugin.mixed_precision_policy)[0].item() == -300.0
