"""What the values of a recipe mean: the rows behind train.adaptation, and the modules behind an adapter's table."""

from __future__ import annotations

from collections.abc import Sequence

from recipec.axes.adaptations import (
    ADAPTATIONS,
    ALL_LINEAR,
    ATTENTION,
    BEHIND_BOTH,
    KEYS_VALUES_MLP,
    Adaptation,
)


def targeted(
    targets: str | Sequence[str], attention: tuple[str, ...], experts: tuple[str, ...], linear: tuple[str, ...]
) -> tuple[str | tuple[str, ...], tuple[str, ...]]:
    """The linear modules and the expert parameters behind a value of train.lora.targets.

    `attention` and `experts` are what the model has. PEFT knows all linear modules of a dense model itself, but where
    `linear` names them; in a mixture of experts its word for them takes the router too, and names of a shared expert
    mean the others.
    """
    if targets == ATTENTION:
        return attention, ()
    if targets == ALL_LINEAR:
        return (attention, experts) if experts else (linear or ALL_LINEAR, ())
    return tuple(name for name in targets if name not in experts), tuple(name for name in experts if name in targets)


def scaled(kinds: str, attention_in: tuple[str, ...], mlp_out: str) -> tuple[str, ...]:
    """The linear modules that vectors scale: keys and values, fused ones with the queries; the inputs of `mlp_out`."""
    keys_values = attention_in[1:] or attention_in
    return (*keys_values, mlp_out) if kinds == KEYS_VALUES_MLP else keys_values


def behind(after: str, attention_out: str, mlp_out: str) -> tuple[str, ...]:
    """The linear modules with a bottleneck adapter behind them: the last of a feed-forward block, and of attention."""
    return (attention_out, mlp_out) if after == BEHIND_BOTH else (mlp_out,)


def families() -> dict[str, str]:
    """The values of train.adaptation and what each means: families, and the names of rows on a quantized base."""
    named = {row.family: row.means for row in ADAPTATIONS.values() if not row.quantized and not row.asked_in}
    return named | {row.name: row.means for row in ADAPTATIONS.values() if row.quantized}


def meant_by(adaptation: str) -> tuple[Adaptation, ...]:
    """The rows that a value of train.adaptation can mean: those of a family, or one on its quantized base."""
    family = tuple(row for row in ADAPTATIONS.values() if row.family == adaptation)
    return family or tuple(row for row in ADAPTATIONS.values() if row.name == adaptation)
