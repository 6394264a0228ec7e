"""Low-rank adapters: PEFT's LoraConfig."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, returning
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

# What PEFT calls a model by the class that loads it: peft 0.21 utils/peft_types.py TaskType
_TASKS = {"AutoModelForCausalLM": "CAUSAL_LM", "AutoModelForSequenceClassification": "SEQ_CLS"}


def part(stage: StageJob) -> Part:
    """The adapters that the trainer puts into the model."""
    ids, config = stage.ids("adaptation"), stage.adapts.config
    return Part(
        imports=(Import("peft", config, ids),),
        functions=(returning("lora_config", config, _config(stage), ids),),
        arguments=(Arg("peft_config", Raw("lora_config()"), ids),),
    )


def _config(stage: StageJob) -> Call:
    targets, revision = stage.value("lora_targets"), stage.job.loaded.recipe.model.revision
    pinned = [Arg("revision", revision, stage.ids("model"), "of the base: evaluate.py and merge_adapter.py load it")]
    return Call(
        stage.adapts.config,
        [
            stage.arg("r", "lora_rank"),
            stage.arg("lora_alpha", "lora_alpha"),
            stage.arg("lora_dropout", "lora_dropout"),
            stage.arg("target_modules", "lora_targets", targets if isinstance(targets, str) else list(targets)),
            Arg("bias", "none", stage.ids("adaptation")),
            Arg("task_type", _TASKS[stage.method.auto_class], stage.ids("adaptation")),
            *(pinned if revision and stage.plan.stage.starts_from is None else []),
        ],
    )
