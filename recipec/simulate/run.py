"""The models of one step, and their forwards as accelerate and TRL wrap them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from accelerate.utils.operations import convert_to_fp32
from msgspec import Struct
from torch import nn
from trl.models.utils import _ForwardRedirection, disable_gradient_checkpointing

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
    reenters: bool  # which of torch's checkpoints comes on again behind the reference
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

    def compared(self, inputs: Inputs) -> torch.Tensor:
        """The loss of the trainer that bundles of on-policy distillation bring, on answers behind one token."""
        ids, present = inputs["input_ids"], torch.ones_like(inputs["input_ids"])
        given = {"prompt_ids": ids[:, :1], "completion_ids": ids[:, 1:]}
        given |= {"prompt_mask": present[:, :1], "completion_mask": present[:, 1:]}
        casts = nullcontext() if self.autocast is None else torch.autocast("cpu", dtype=self.autocast)
        trainer = self.distiller
        trainer.accelerator = SimpleNamespace(
            unwrap_model=lambda model: model, autocast=lambda: casts, is_main_process=False
        )
        trainer._forward_redirection, trainer._get_last_hidden_state = self._by_teacher, self._states
        student = self.model
        loss: torch.Tensor = _ForwardRedirection()(student, student, trainer._compute_loss, student, given, None)[0]
        self.sites.differentiated(loss)
        return loss

    def _states(self, model: nn.Module, ids: torch.Tensor, present: torch.Tensor, answered: int) -> torch.Tensor:
        """Of the answers; transformers drops the mask of a row without padding, whose values nobody knows here."""
        trainer = self.distiller
        found: torch.Tensor = type(trainer)._get_last_hidden_state(
            trainer, model, ids, present if len(ids) > 1 else None, answered
        )
        return found

    def _by_teacher(self, wrapped: nn.Module, model: nn.Module, method: Callable[..., Any], *given: Any) -> Any:
        """The teacher's forward, at a moment of its own."""
        before = self.sites.moment
        if before == "forward":
            self.sites.enter(TEACHER)
        states = method(*given)
        self.sites.moment = before
        self.sites.behind_layers()
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
        recomputing = disable_gradient_checkpointing(self.model, {"use_reentrant": self.reenters})
        with torch.no_grad(), recomputing, adapters_off:
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
