"""Low-rank adapters: PEFT's LoraConfig."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.backends.job import StageJob
from recipec.backends.models import pinned_revision
from recipec.backends.parts import Import, Part, lines, returning
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

# PEFT 0.21 copies the head in the base's type: of 64 weights at a rate of 1e-5, 20 steps in bf16 moved 7, in fp32 all.
_FP32_HEAD = """\
# the new head learns in fp32: in 16 bits, steps as small as these round to nothing
trainer.model.{head}.modules_to_save.float()"""


def part(stage: StageJob) -> Part:
    """The adapters that the trainer puts into the model."""
    ids, config = stage.ids("adaptation"), stage.adapts.config
    return Part(
        imports=(Import("peft", config, ids),),
        functions=(returning("lora_config", config, _config(stage), ids),),
        arguments=(Arg("peft_config", Raw("lora_config()"), ids),),
        after_trainer=_head_in_fp32(stage),
    )


def _head_in_fp32(stage: StageJob) -> tuple[Raw, ...]:
    """Where no engine keeps an fp32 master of the head, the head is one itself; a quantized base sees to all."""
    kept = stage.strategy.keeps_master or stage.adapts.quantized or stage.value("precision") == "fp32"
    if kept or not stage.method.new_head:
        return ()
    text = _FP32_HEAD.format(head=stage.method.new_head)
    return lines(stage.ids("adaptation", "precision", "strategy"), *text.splitlines())


def _config(stage: StageJob) -> Call:
    revision = pinned_revision(stage)
    pinned = [Arg("revision", revision, stage.ids("model"), "of the base: evaluate.py and merge_adapter.py load it")]
    head = [
        Arg("modules_to_save", [stage.method.new_head], stage.ids("stage"), "the new head, trained and saved whole")
    ]
    return Call(
        stage.adapts.config,
        [
            stage.arg("r", "lora_rank"),
            stage.arg("lora_alpha", "lora_alpha"),
            stage.arg("lora_dropout", "lora_dropout"),
            *_targets(stage),
            *(Arg(name, value, stage.ids("lora_variant")) for name, value in stage.variant.arguments),
            Arg("bias", "none", stage.ids("adaptation")),
            *(head if stage.method.new_head else []),
            Arg("task_type", stage.method.peft_task, stage.ids("adaptation")),
            *(pinned if revision else []),
        ],
    )


def _targets(stage: StageJob) -> Iterator[Arg]:
    """The linear modules, and the experts, which are fused parameters: names leave their router alone."""
    lora, rank = stage.plan.work.lora, stage.value("lora_rank")
    assert lora is not None
    yield stage.arg("target_modules", "lora_targets", _listed(lora.targets))
    if not lora.experts:
        return
    ids = stage.ids("lora_targets", "lora_experts", "model")
    yield Arg("target_parameters", list(lora.experts), ids, "all experts; the router stays as it is")
    if lora.expert_rank != rank:
        alpha = stage.value("lora_alpha") * lora.expert_rank / rank
        ids = stage.ids("lora_expert_rank", "lora_experts", "lora_alpha", "lora_rank")
        yield Arg("rank_pattern", dict.fromkeys(lora.experts, lora.expert_rank), ids, _why_rank(stage))
        yield Arg(
            "alpha_pattern", dict.fromkeys(lora.experts, _whole(alpha)), ids, "the same alpha / rank as elsewhere"
        )


def _why_rank(stage: StageJob) -> str:
    decision = stage.plan.decisions["lora_expert_rank"]
    return "" if decision.origin == "recipe" else decision.because


def _listed(targets: str | tuple[str, ...]) -> Any:
    return targets if isinstance(targets, str) else list(targets)


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number
