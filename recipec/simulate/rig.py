"""Sets one rank up at a given depth and runs a step of it under the meter."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from recipec.axes.strategies import TORCH_DDP
from recipec.catalog.architecture import Architecture
from recipec.estimate.scores import one_row
from recipec.estimate.workload import Workload
from recipec.layout import Layout
from recipec.simulate.device import AllValid, like_cuda, on_cpu
from recipec.simulate.meter import Meter, Peak
from recipec.simulate.model import decoder, distiller, emitted, policy_model, reference_model
from recipec.simulate.optimizer import optimizer_of
from recipec.simulate.run import Run
from recipec.simulate.sites import Sites
from recipec.simulate.step import batch, compute_dtype, train, trained


def step_peaks(architecture: Architecture, layout: Layout, work: Workload) -> dict[str, Peak]:
    """Site -> peak of one step at the architecture's full depth; the optimizer's states exist when it begins."""
    mesh = None
    if layout.fsdp:
        from recipec.simulate.shard import process_group

        mesh = process_group(layout.mesh)
    with (
        _quiet(),
        FakeTensorMode(allow_non_fake_inputs=True),
        _device(architecture, layout, work),
        AllValid(),
        Meter() as meter,
    ):
        run = _run(architecture, layout, work, meter, mesh)
        optimizer = _warmed_up(run.model, optimizer_of(run.model, layout.optimizer, work.decays), meter)
        if layout.spreads.engine == TORCH_DDP and layout.mesh.world_size > 1:
            _hold_buckets(run.model, meter)
        inputs = batch(layout, work)
        for tensor in inputs.values():
            meter.count(tensor, "inputs")
        gc.collect()
        meter.peaks.clear()
        last = min(layout.accumulation, 2) - 1
        with _buffers(layout, meter), _router_loss(run.sites):
            train(run, optimizer, inputs, [work.sync_each_batch or index == last for index in range(last + 1)])
    return meter.peaks


def _device(architecture: Architecture, layout: Layout, work: Workload) -> AbstractContextManager[None]:
    together = one_row(layout, work)
    return on_cpu(together, architecture.vocab_size) if work.on_cpu else like_cuda(together)


def _run(architecture: Architecture, layout: Layout, work: Workload, meter: Meter, mesh: Any) -> Run:
    sites = Sites(meter)
    model, reference, trainer = _models(architecture, layout, work, sites, mesh)
    teacher = trainer.teacher_modules if trainer else None
    _count(model, {"reference_model": reference, "teacher_model": teacher}, meter)
    return Run(
        method=work.method,
        model=model,
        reference=reference,
        precomputed=layout.precomputes,
        distiller=trainer,
        sites=sites,
        reenters=layout.spreads.reenters(layout.adapts),
        autocast=compute_dtype(layout),
        balanced=architecture.balanced,
    )


def _models(
    architecture: Architecture, layout: Layout, work: Workload, sites: Sites, mesh: Any
) -> tuple[nn.Module, nn.Module | None, Any]:
    """What is trained, its reference and who distils; sharded where a mesh is given, but for a teacher."""
    model = policy_model(architecture, layout, work)
    trainer = distiller(model, work.teacher, layout, work.method.loss) if work.teacher else None
    copied = work.method.has_reference and layout.adapts.copies_reference and not layout.precomputes
    reference = reference_model(architecture, layout, work) if copied else None
    for each in (model, reference) if reference else (model,):
        sites.attach(decoder(each))
    if mesh is None:
        return model, reference, trainer
    from recipec.simulate.shard import accelerator, shard_policy, shard_reference

    if layout.shares_packed:
        emitted("packed_weights")["shard_packed_weights"](model, torch.device("cpu"))
    stub = accelerator(architecture, layout, mesh)
    return shard_policy(model, stub), shard_reference(reference, stub) if reference else None, trainer


def _count(model: nn.Module, others: dict[str, nn.Module | None], meter: Meter) -> None:
    """Name what is resident, and gradients when they appear."""
    frozen = any(not parameter.requires_grad for parameter in model.parameters())
    for parameter in model.parameters():
        meter.count(parameter, "adapters" if frozen and parameter.requires_grad else "weights")
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda p: meter.count(p.grad, "gradients"))
    for name, other in others.items():
        for parameter in other.parameters() if other else ():
            meter.count(parameter, name)


def _warmed_up(model: nn.Module, optimizer: torch.optim.Optimizer, meter: Meter) -> torch.optim.Optimizer:
    """The optimizer after a first step, so that its states exist."""
    for parameter in trained(model):
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for state in optimizer.state.values():
        for tensor in state.values():
            if isinstance(tensor, torch.Tensor):
                meter.count(tensor, "optimizer_states")
    return optimizer


def _hold_buckets(model: nn.Module, meter: Meter) -> None:
    """DDP's buckets: a copy of all gradients, beside the gradients themselves."""
    size_bytes = sum(parameter.numel() * parameter.element_size() for parameter in trained(model))
    model.register_buffer("_buckets", torch.empty(size_bytes, dtype=torch.uint8), persistent=False)
    meter.count(model._buckets, "communication_buffers")


def _router_loss(sites: Sites) -> Any:
    """TRL imports the function at each call, from here for every family of experts."""
    from transformers.models.mixtral import modeling_mixtral as mixtral

    return patch.object(mixtral, "load_balancing_loss_func", sites.router_loss(mixtral.load_balancing_loss_func))


def _buffers(layout: Layout, meter: Meter) -> Any:
    if not layout.fsdp:
        return nullcontext()
    from recipec.simulate.shard import buffers_counted

    return buffers_counted(meter)


@contextmanager
def _quiet() -> Iterator[None]:
    """Libraries warn about the stand-ins; the collector must not run in the middle of a step."""
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.enable()
