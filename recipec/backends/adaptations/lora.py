"""Low-rank adapters: PEFT's LoraConfig."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.backends.adaptations import continued
from recipec.backends.adaptations.configuration import configured
from recipec.backends.job import StageJob
from recipec.backends.parts import Part
from recipec.backends.vocabulary import trained_rows
from recipec.catalog.architecture import PAST_ADAPTERS
from recipec.render.call import Arg


def part(stage: StageJob) -> Part:
    """The adapters that the trainer puts into the model, or those that it finds there."""
    if stage.init_from:
        return continued.part(stage, f"{stage.adapts.base}_config" if stage.adapts.quantized else "")
    return configured(
        stage,
        stage.arg("r", "lora_rank"),
        stage.arg("lora_alpha", "lora_alpha"),
        stage.arg("lora_dropout", "lora_dropout"),
        *_targets(stage),
        *(Arg(name, value, stage.ids("lora_variant")) for name, value in stage.variant.arguments),
        *trained_rows(stage),
        Arg("bias", "none", stage.ids("adaptation")),
    )


def _targets(stage: StageJob) -> Iterator[Arg]:
    """The linear modules, and the experts, which are fused parameters: names leave their router alone."""
    lora, rank = stage.plan.work.lora, stage.value("lora_rank")
    assert lora is not None
    left = stage.job.facts.model.architecture.unadapted if not isinstance(lora.targets, str) else {}
    yield Arg("target_modules", _listed(lora.targets), stage.ids("lora_targets", "model"), _why_without(left))
    if not lora.experts:
        return
    ids, moe = stage.ids("lora_targets", "lora_experts", "model"), stage.job.facts.model.architecture.moe
    frozen = "the router and the MLP beside them are" if moe and moe.shared_intermediate_size else "the router is"
    yield Arg("target_parameters", list(lora.experts), ids, f"all experts; {frozen} frozen")
    if lora.expert_rank != rank:
        alpha = stage.value("lora_alpha") * lora.expert_rank / rank
        ids = stage.ids("lora_expert_rank", "lora_experts", "lora_alpha", "lora_rank")
        yield Arg("rank_pattern", dict.fromkeys(lora.experts, lora.expert_rank), ids, _why_rank(stage))
        yield Arg(
            "alpha_pattern", dict.fromkeys(lora.experts, _whole(alpha)), ids, "the same alpha / rank as elsewhere"
        )


def _why_without(left: Mapping[str, str]) -> str:
    """Which linear modules have no adapter."""
    past = [name for name, why in left.items() if why == PAST_ADAPTERS]
    if past:
        return f"without {', '.join(past)}: kernels of Mamba take its weight past an adapter"
    return "attention and the feed-forward block; what takes the second embedding is frozen" if left else ""


_WARNED = "PEFT warns that no module has these names, and applies them to the parameters"


def _why_rank(stage: StageJob) -> str:
    """Why it is that, and what PEFT 0.21.2 prints of it (run: the rank is applied)."""
    decision = stage.plan.decisions["lora_expert_rank"]
    return _WARNED if decision.origin == "recipe" else f"{decision.because}; {_WARNED}"


def _listed(targets: str | tuple[str, ...]) -> Any:
    return targets if isinstance(targets, str) else list(targets)


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number
