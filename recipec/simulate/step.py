"""One training step as TRL's trainers and the Trainer around them run it, from forward to evaluation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from recipec.estimate.scores import one_row
from recipec.estimate.workload import Workload
from recipec.layout import Layout
from recipec.simulate.losses import LOSSES
from recipec.simulate.model import DTYPES
from recipec.simulate.run import Inputs, Run


def train(run: Run, optimizer: torch.optim.Optimizer, inputs: Inputs, syncs: list[bool]) -> None:
    """The micro steps, clipping, the optimizer, and an evaluation of the same batch.

    `syncs`: for each micro step, whether FSDP reduces its gradients.
    """
    loss_of = LOSSES[run.method.loss]
    for sync in syncs:
        if hasattr(run.model, "set_requires_gradient_sync"):
            run.model.set_requires_gradient_sync(sync)
        run.sites.enter("forward")
        loss = loss_of(run, inputs)
        run.sites.enter("backward")
        loss.backward()
        del loss
    run.sites.enter("optimizer_step")
    torch.nn.utils.clip_grad_norm_(trained(run.model), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    run.sites.enter("evaluation")
    run.model.eval()
    with torch.no_grad():
        loss_of(run, inputs)


def batch(layout: Layout, work: Workload) -> Inputs:
    """Token ids and labels of one micro step; a mask only where rows of different length can meet."""
    rows = layout.micro_batch * work.method.sequences_per_example
    length = work.seq_len_tokens - (work.lora.virtual_tokens if work.lora else 0)  # PEFT puts the prompt before it
    together = one_row(layout, work)
    shape = (1, rows * length) if together else (rows, length)
    ids: Callable[[], torch.Tensor] = lambda: torch.zeros(shape, dtype=torch.long)  # noqa: E731
    inputs = {"input_ids": ids(), "labels": ids()}
    if together:
        inputs["position_ids"] = ids()
    if work.padded and rows > 1:
        inputs["attention_mask"] = ids()
    return inputs


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that the optimizer updates."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def compute_dtype(layout: Layout) -> torch.dtype | None:
    """The type that autocast computes in; None where nothing is cast."""
    return None if layout.precision == "fp32" or layout.fsdp else DTYPES[layout.precision]
