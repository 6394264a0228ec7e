"""FSDP2 over a process group that answers at once: accelerate's and TRL's own preparation, one rank of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as distributed
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.testing._internal.distributed.fake_pg import FakeStore

from recipec.catalog.architecture import Architecture
from recipec.layout import Layout, Mesh
from recipec.simulate.meter import Meter
from recipec.simulate.model import DTYPES

_BUFFERS = ("unshard", "wait_for_unshard", "post_backward")  # methods that make FSDP's own buffers


def process_group(mesh: Mesh) -> Any:
    """The ranks of `mesh`, of which this process is the first; call it outside FakeTensorMode."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
    distributed.init_process_group("fake", rank=0, world_size=mesh.data_parallel, store=FakeStore())
    if mesh.replicate == 1:
        return init_device_mesh("cpu", (mesh.shard,), mesh_dim_names=("dp_shard",))
    names = ("dp_replicate", "dp_shard")
    return init_device_mesh("cpu", (mesh.replicate, mesh.shard), mesh_dim_names=names)


def accelerator(architecture: Architecture, layout: Layout, mesh: Any) -> Any:
    """What accelerate's and TRL's preparation read of an Accelerator, with the emitted configs/fsdp.yaml in it."""
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        reshard_after_forward=True,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=[architecture.decoder_layer],
        cpu_ram_efficient_loading=False,  # loading is not simulated
        state_dict_type="SHARDED_STATE_DICT",
    )
    precision = {"fp32": "no"}.get(layout.precision, layout.precision)
    if precision != "no":
        dtype = DTYPES[layout.precision]
        plugin.mixed_precision_policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    return SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin),
        torch_device_mesh={mesh.mesh_dim_names: mesh},
        parallelism_config=SimpleNamespace(fsdp_dim_names=mesh.mesh_dim_names),
        mixed_precision=precision,
        is_main_process=False,
        device=torch.device("cpu"),
    )


def shard_policy(model: nn.Module, stub: Any) -> nn.Module:
    """`Accelerator.prepare` for FSDP2: each decoder layer a unit.

    FSDP looks at the first forward for what trains. In a run that is the policy's; where a loss begins with the
    reference, whose adapters are off, it would find nothing that trains.
    """
    stub.state.fsdp_plugin.set_auto_wrap_policy(model)
    prepared = fsdp2_prepare_model(stub, model)
    prepared._get_fsdp_state()._lazy_init()
    return prepared


def shard_reference(model: nn.Module, stub: Any) -> nn.Module:
    """TRL's own preparation of DPO's reference: one unit for the whole model."""
    from trl.models.utils import prepare_fsdp

    return prepare_fsdp(model, stub)


@contextmanager
def buffers_counted(meter: Meter) -> Iterator[None]:
    """Count what FSDP gathers and reduces as communication buffers, and not the shapes that DTensor infers."""
    changes = [(FSDPParamGroup, name, "category", "communication_buffers") for name in _BUFFERS]
    changes.append((ShardingPropagator, "_propagate_tensor_meta_non_cached", "paused", True))
    with ExitStack() as stack:
        for owner, name, attribute, value in changes:
            stack.enter_context(patch.object(owner, name, _during(getattr(owner, name), meter, attribute, value)))
        yield


def _during(method: Callable[..., Any], meter: Meter, attribute: str, value: object) -> Callable[..., Any]:
    """The method with an attribute of the meter set while it runs."""

    def run(*arguments: Any, **options: Any) -> Any:
        before = getattr(meter, attribute)
        setattr(meter, attribute, value)
        try:
            return method(*arguments, **options)
        finally:
            setattr(meter, attribute, before)

    return run
