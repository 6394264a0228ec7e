"""What adapters of every family bring: their configuration, and a new head beside them."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.models import pinned_revision
from recipec.backends.parts import Import, Part, lines, returning
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

# PEFT 0.21 copies the head in the base's type: of 64 weights at a rate of 1e-5, 20 steps in bf16 moved 7, in fp32 all.
_FP32_HEAD = """\
# the new head learns in fp32: in 16 bits, steps as small as these round to nothing
trainer.model.{head}.modules_to_save.float()"""


def configured(stage: StageJob, *shape: Arg) -> Part:
    """The adapters that the trainer puts into the model, of a `shape`: a function of train.py returns them."""
    ids, config = stage.ids("adaptation"), stage.adapts.config
    function = f"{stage.adapts.family.replace('-', '_')}_config"
    brought = (Import(stage.adapts.module or "peft", config, ids),)
    return Part(
        imports=brought * (not stage.adapts.module),
        own_imports=brought * bool(stage.adapts.module),
        functions=(returning(function, config, _config(stage, shape), ids),),
        arguments=(Arg("peft_config", Raw(f"{function}()"), ids),),
        after_trainer=_head_in_fp32(stage),
    )


def _config(stage: StageJob, shape: tuple[Arg, ...]) -> Call:
    revision = pinned_revision(stage)
    pinned = [Arg("revision", revision, stage.ids("model"), "of the base, for who loads it by this file")]
    head = [
        Arg("modules_to_save", [stage.method.new_head], stage.ids("stage"), "the new head, trained and saved whole")
    ]
    return Call(
        stage.adapts.config,
        [
            *shape,
            *(head if stage.method.new_head else []),
            Arg("task_type", stage.method.peft_task, stage.ids("adaptation")),
            *(pinned if revision else []),
        ],
    )


def _head_in_fp32(stage: StageJob) -> tuple[Raw, ...]:
    """Where no engine keeps an fp32 master of the head, the head is one itself; a quantized base sees to all."""
    kept = stage.strategy.keeps_master or stage.adapts.quantized or stage.value("precision") == "fp32"
    if kept or not stage.method.new_head:
        return ()
    text = _FP32_HEAD.format(head=stage.method.new_head)
    return lines(stage.ids("adaptation", "precision", "strategy"), *text.splitlines())
