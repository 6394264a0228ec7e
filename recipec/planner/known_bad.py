"""Candidates against the table of combinations that are known to fail."""

from __future__ import annotations

from collections.abc import Mapping

from recipec.layout import Layout
from recipec.rules.combinations import BadCombination, known_bad
from recipec.rules.combinations import Facts as Combination
from recipec.rules.core import Decision


def refused(layout: Layout, decisions: Mapping[str, Decision]) -> BadCombination | None:
    """The first reason why the layout must not be proposed, None when there is none."""
    return next((row for row in known_bad(_combination(layout, decisions)) if row.refused), None)


def advised_against(layout: Layout, decisions: Mapping[str, Decision]) -> list[BadCombination]:
    """What runs, but is better done otherwise."""
    return [row for row in known_bad(_combination(layout, decisions)) if not row.refused]


def _combination(layout: Layout, decisions: Mapping[str, Decision]) -> Combination:
    value = {id: decision.value for id, decision in decisions.items()}
    targets = value.get("lora_targets", "all-linear")
    return Combination(
        stage=value["stage"],
        adaptation=layout.adaptation,
        quantization=layout.quantization,
        precision=layout.precision,
        model_type=value["model_type"],
        strategy=layout.strategy,
        offload=layout.offload,
        optimizer=layout.optimizer,
        attention=layout.attention,
        packing=layout.packing,
        compile=value["compile"],
        gpu_bf16=value["gpu_bf16"],
        gpu_is_cpu=value["gpu_is_cpu"],
        moe=value["moe"],
        leaf_modules=value["moe"],  # the ZeRO-3 configuration that we emit always names them
        lora_targets=targets if isinstance(targets, str) else tuple(targets),
        lora_dropout=value.get("lora_dropout", 0.0),
        eval_every=value.get("eval_every", 0.05),
        save_every=value.get("save_every", 0.05),
    )
