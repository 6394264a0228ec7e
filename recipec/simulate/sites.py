"""Names the places of a step: the meter keeps a peak for each, and two depths are compared place by place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from recipec.axes.method import POLICY, REFERENCE, TEACHER
from recipec.simulate.meter import Meter

CATEGORIES = {  # what a new tensor is counted as, by the moment of the site
    "forward": "activations",
    "forward_end": "logits",
    "loss": "logits",
}
SCORED = (POLICY, REFERENCE, TEACHER, "evaluation")  # moments without a gradient: their sites are apart


class Sites:
    """Moves the meter from site to site. A site is a moment, or a moment and the layer that runs: "forward:0"."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.moment = "build"

    def enter(self, moment: str) -> None:
        """Begin a moment of the step: forward, who runs without a gradient, backward, optimizer_step or evaluation."""
        self.moment = moment
        self._at({"backward": "loss:router"}.get(moment, moment))

    def attach(self, decoder: nn.Module) -> None:
        """Watch the decoder's layers and its final norm; before anything wraps them."""
        layers = list(decoder.layers)
        for index, layer in enumerate(layers):
            layer.register_forward_pre_hook(self._before(index))
            layer.register_forward_hook(self._after(index))
        layers[-1].register_forward_hook(lambda *_: self.behind_layers())

    def behind_layers(self) -> None:
        """The layers have run, and the head comes."""
        self._at("forward_end" if self.moment == "forward" else "head")

    def router_loss(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """The load-balancing loss looks at all layers at once: a place of its own, which grows with the depth."""

        def placed(*arguments: Any, **options: Any) -> Any:
            before = self.meter.site
            self._at("forward_end:router")
            result = run(*arguments, **options)
            self.meter.site = before
            return result

        return placed

    def at_loss(self) -> None:
        """The loss is computed outside the model's forward."""
        self._at("loss")

    def differentiated(self, outcome: torch.Tensor) -> None:
        """What comes of the head is there: once its gradient is, the head is differentiated, after the router loss."""
        if outcome.requires_grad:
            outcome.register_hook(lambda _: self._at("loss"))

    def _at(self, site: str) -> None:
        within = self.moment in SCORED and site != self.moment
        self.meter.site = f"{self.moment}:{site}" if within else site
        self.meter.category = CATEGORIES.get(self.meter.site.partition(":")[0], "working_set")

    def _before(self, index: int) -> Callable[..., None]:
        """A layer runs: forward, or recomputed in the backward pass."""

        def hook(_: nn.Module, arguments: tuple[Any, ...]) -> None:
            if self.moment == "backward":
                self._at(f"layer_backward:{index}")
                return
            self._at(f"forward:{index}" if self.moment == "forward" else str(index))
            if index == 0 and self.moment == "forward" and arguments[0].requires_grad:
                arguments[0].register_hook(lambda _: self._at("end_of_backward"))

        return hook

    def _after(self, index: int) -> Callable[..., None]:
        """The gradient of a layer's output is there: its backward begins."""

        def hook(_: nn.Module, __: Any, output: Any) -> None:
            hidden = output if isinstance(output, torch.Tensor) else output[0]
            if self.moment == "forward" and hidden.requires_grad:
                hidden.register_hook(lambda _: self._at(f"layer_backward:{index}"))

        return hook
