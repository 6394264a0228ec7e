"""Decisions that a stage has only where the recipe asks for them."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.axes.loops import LOOPS
from recipec.catalog.architecture import Architecture
from recipec.rules import dispatch, forgetting, precision
from recipec.rules.core import Decision, Ledger

_ELASTIC = forgetting.ewc_strength, forgetting.ewc_rows


_DISPATCH = dispatch.capacity_factor, dispatch.eval_capacity_factor, dispatch.min_capacity, dispatch.balance_loss


def dispatch_tokens(ledger: Ledger, shape: Architecture) -> None:
    """The room of experts: where the loop trains them in layers of DeepSpeed-MoE, or the recipe asks for it."""
    value = ledger.decisions
    loop = LOOPS[value["loop"].value] if "loop" in value else None
    trains = loop is not None and value["moe"].value and value["stage"].value in loop.dispatches
    if trains or any(rule.key in ledger.wishes for rule in _DISPATCH):
        for rule in _DISPATCH:
            ledger.decide(rule)
        because = "attention, the router and the experts of a token; those of other tokens rest"
        ledger.record(
            Decision("active_params", shape.active_params, because, inputs=("model", "moe"), origin="planner")
        )


def hold_weights(ledger: Ledger) -> None:
    """Elastic weight consolidation: how strongly, and which rows tell what matters."""
    if any(rule.key in ledger.wishes for rule in _ELASTIC):
        for rule in _ELASTIC:
            ledger.decide(rule)


def multiply_in_fp8(ledger: Ledger) -> None:
    """Whether linear layers multiply in FP8."""
    if precision.fp8.key in ledger.wishes:
        ledger.decide(precision.fp8)


def compile_for_fp8(ledger: Ledger, compiled: Decision) -> None:
    """The model is compiled where it multiplies in FP8, unless the recipe says otherwise (BAD-191)."""
    asked = ledger.decisions.get("fp8")
    if asked is not None and asked.value and compiled.origin != "recipe":
        because = "FP8 is faster than bf16 only where torch.compile fuses rounding and scaling"
        inputs = (*compiled.inputs, "fp8")
        ledger.decisions["compile"] = replace(compiled, value=True, because=because, inputs=inputs)
