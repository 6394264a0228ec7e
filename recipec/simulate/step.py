"""One training step as TRL's trainers and the Trainer around them run it, from forward to evaluation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from accelerate.utils.operations import convert_to_fp32
from torch import nn
from trl.models.utils import disable_gradient_checkpointing

from recipec.estimate.scores import one_row
from recipec.estimate.work import Work
from recipec.layout import Layout
from recipec.simulate.model import DTYPES, ROUTER_COEFFICIENT
from recipec.simulate.sites import Sites

Inputs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trainer:
    """What takes part in a step."""

    model: nn.Module
    reference: nn.Module | None
    optimizer: torch.optim.Optimizer
    sites: Sites
    autocast: torch.dtype | None  # accelerate wraps the model's forward in it
    preference: bool
    experts: bool
    syncs_each_batch: bool

    def step(self, inputs: Inputs, micro_steps: int) -> None:
        """The micro steps, clipping, the optimizer, and an evaluation of the same batch."""
        for index in range(micro_steps):
            if hasattr(self.model, "set_requires_gradient_sync"):
                self.model.set_requires_gradient_sync(self.syncs_each_batch or index == micro_steps - 1)
            self.sites.enter("forward")
            loss = self._loss(inputs)
            self.sites.enter("backward")
            loss.backward()
            del loss
        self.sites.enter("optimizer_step")
        torch.nn.utils.clip_grad_norm_(trained(self.model), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._evaluate(inputs)

    def _evaluate(self, inputs: Inputs) -> None:
        self.sites.enter("evaluation")
        self.model.eval()
        with torch.no_grad():
            self._loss(inputs)

    def _loss(self, inputs: Inputs) -> torch.Tensor:
        return self._preference_loss(inputs) if self.preference else self._supervised_loss(inputs)

    def _supervised_loss(self, inputs: Inputs) -> torch.Tensor:
        """SFTTrainer.compute_loss, TRL 1.16."""
        outputs = self._forward(self.model, inputs, self.experts)
        self.sites.differentiated(outputs.log_probs)
        return self._with_router_loss((-outputs.log_probs).sum() / outputs.label_mask.sum(), outputs)

    def _preference_loss(self, inputs: Inputs) -> torch.Tensor:
        """DPOTrainer._compute_loss, TRL 1.16: policy, then reference, then the sigmoid loss."""
        outputs = self._forward(self.model, inputs, self.experts)
        self.sites.differentiated(outputs.log_probs)
        chosen, rejected = (outputs.log_probs.sum(1) - self._reference_logps(inputs)).chunk(2)
        return self._with_router_loss(-functional.logsigmoid(0.1 * (chosen - rejected)).mean(), outputs)

    def _reference_logps(self, inputs: Inputs) -> torch.Tensor:
        stage = self.sites.stage
        if stage == "forward":
            self.sites.enter("reference")
        adapters_off = self.model.disable_adapter() if self.reference is None else nullcontext()
        options = {"use_reentrant": False}
        with torch.no_grad(), disable_gradient_checkpointing(self.model, options), adapters_off:
            logps = self._forward(self.reference or self.model, inputs, False).log_probs.sum(1)
        self.sites.enter(stage)
        return logps

    def _with_router_loss(self, loss: torch.Tensor, outputs: Any) -> torch.Tensor:
        return loss + ROUTER_COEFFICIENT * outputs.aux_loss if self.experts else loss

    def _forward(self, model: nn.Module, inputs: Inputs, router: bool) -> Any:
        """The model's forward as accelerate prepares it."""
        options = {"use_cache": False, "fused_lm_head": True, "output_router_logits": router}
        if not self.experts:
            del options["output_router_logits"]
        if self.autocast is None:
            return model(**inputs, **options)
        with torch.autocast("cpu", dtype=self.autocast):
            outputs = model(**inputs, **options)
        return convert_to_fp32(outputs)


def batch(layout: Layout, work: Work) -> Inputs:
    """Token ids and labels of one micro step; a mask only where rows of different length can meet."""
    rows, length = layout.micro_batch * work.sequences_per_example, work.seq_len_tokens
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
