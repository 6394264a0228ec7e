"""What fsdp.yaml asks for is what FSDP2 does: a layer's gathered weights are freed after its forward pass."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from compiling import BASES, good, texts


@pytest.fixture
def one_rank() -> Iterator[None]:
    """A process group of this process alone."""
    from torch import distributed

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_layers_weights_are_sharded_again_after_forward(tmp_path: Path, one_rank: None) -> None:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    mesh, reshards = init_device_mesh("cpu", (1,)), _asked_of_fsdp(tmp_path)
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshards)
    fully_shard(layers, mesh=mesh, reshard_after_forward=reshards)
    layers(torch.ones(1, 8))
    assert [isinstance(weight, DTensor) for weight in layers.parameters()] == [True] * 4


def _asked_of_fsdp(folder: Path) -> bool:
    """What accelerate makes of the emitted configuration."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    path = folder / "fsdp.yaml"
    path.write_text(texts(good(folder / "recipe", BASES["full-fsdp"]))["configs/fsdp.yaml"])
    command = launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    with mock.patch("accelerate.utils.launch.is_port_in_use", lambda *_: False):
        environment = prepare_multi_gpu_env(_validate_launch_command(command)[0])
    with mock.patch.dict(os.environ, environment, clear=True):
        return bool(FullyShardedDataParallelPlugin().reshard_after_forward)
