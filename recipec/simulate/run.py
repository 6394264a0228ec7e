"""The models of one step, and their forwards as accelerate and TRL wrap them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from accelerate.utils.operations import convert_to_fp32
from msgspec import Struct
from torch import nn
from trl.models.utils import disable_gradient_checkpointing

from recipec.axes import Method
from recipec.axes.method import REFERENCE, TEACHER
from recipec.simulate.model import ROUTER_COEFFICIENT
from recipec.simulate.sites import Sites

Inputs = dict[str, torch.Tensor]


class Run(Struct, frozen=True):
    """What takes part in a step."""

    method: Method
    model: nn.Module
    reference: nn.Module | None  # a copy; None where adapters are switched off, or nobody asks
    precomputed: bool  # the log-probabilities of the reference come with the rows
    distiller: Any  # the trainer that a bundle brings, with its teacher; None where nobody teaches
    sites: Sites
    autocast: torch.dtype | None  # accelerate wraps the model's forward in it
    balanced: bool  # the loss has a part for the balance of the experts

    def learned(self, inputs: Inputs, **more: Any) -> Any:
        """The policy's forward that is learned from."""
        return self._forward(self.model, {**inputs, **more}, router=self.balanced)

    def taught(self, inputs: Inputs) -> torch.Tensor:
        """What the teacher's forward leaves for the loss."""
        before = self.sites.moment
        if before == "forward":
            self.sites.enter(TEACHER)
        states = self.distiller.taught_states(inputs)
        self.sites.enter(before)
        return states

    def scored(self, moment: str, model: nn.Module, inputs: Inputs) -> Any:
        """A forward without a gradient, at a moment of its own."""
        before = self.sites.moment
        if before == "forward":
            self.sites.enter(moment)
        with torch.no_grad():
            outputs = self._forward(model, inputs, router=False)
        self.sites.enter(before)
        return outputs

    def by_reference(self, inputs: Inputs) -> torch.Tensor:
        """The summed log-probabilities of the reference, which come with the rows where they are precomputed."""
        if self.precomputed:
            return torch.zeros(inputs["input_ids"].shape[0], device=inputs["input_ids"].device)
        with self.as_reference() as reference:
            return self.scored(REFERENCE, reference, inputs).log_probs.sum(1)

    @contextmanager
    def as_reference(self) -> Iterator[nn.Module]:
        """The frozen start: its copy, or the policy without its adapters; checkpointing is off and comes on again."""
        adapters_off = self.model.disable_adapter() if self.reference is None else nullcontext()
        with torch.no_grad(), disable_gradient_checkpointing(self.model, {"use_reentrant": False}), adapters_off:
            yield self.reference or self.model

    def with_router_loss(self, loss: torch.Tensor, outputs: Any) -> torch.Tensor:
        return loss + ROUTER_COEFFICIENT * outputs.aux_loss if self.balanced else loss

    def _forward(self, model: nn.Module, inputs: Inputs, *, router: bool) -> Any:
        """TRL's fused head is asked for by an option, and given the labels; other heads return scores or logits."""
        options: dict[str, Any] = {"use_cache": False}
        if self.method.loss_outputs:
            options["fused_lm_head"] = True
        else:
            inputs = {name: tensor for name, tensor in inputs.items() if name != "labels"}
        if self.balanced:
            options["output_router_logits"] = router
        if self.autocast is None:
            return model(**inputs, **options)
        with torch.autocast("cpu", dtype=self.autocast):
            outputs = model(**inputs, **options)
        return convert_to_fp32(outputs)
