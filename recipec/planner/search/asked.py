"""Decisions that a stage has only where the recipe asks for them."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.rules import forgetting, precision
from recipec.rules.core import Decision, Ledger

_ELASTIC = forgetting.ewc_strength, forgetting.ewc_rows


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


def mix_adapters(ledger: Ledger, tasks: tuple[str, ...]) -> None:
    """Which adapters a stage learns to mix, where it mixes any."""
    if tasks:
        inputs = ("stage", "adaptation", "reduction_factor", "adapters_after")
        ledger.record(Decision("mixed_adapters", tasks, "those of all tasks", inputs=inputs, origin="planner"))
