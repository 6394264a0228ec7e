"""What the decisions of a plan say of the settings in train.py: a table beside the one that compiles them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any

from recipec.verify.bundle import BundleStage, assigned, call_arguments, every_keyword, function

_SAME = {  # argument of the trainer's configuration -> the decision that it repeats, where the plan has one
    "seed": "seed",
    "num_train_epochs": "epochs",
    "per_device_train_batch_size": "micro_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation",
    "per_device_eval_batch_size": "eval_batch_size",
    "learning_rate": "learning_rate",
    "warmup_steps": "warmup",
    "adam_beta2": "adam_beta2",
    "weight_decay": "weight_decay",
    "max_grad_norm": "max_grad_norm",
    "save_total_limit": "keep_checkpoints",
    "logging_steps": "logging_steps",
    "report_to": "tracker",
    "dataloader_num_workers": "dataloader_workers",
}
_OF_THE_TRAINER = {  # of a library's trainer; a loop of the bundle's own says these in its code
    "activation_checkpointing": "checkpointing",
    "metric_for_best_model": "best_metric",
    "train_sampling_strategy": "sampling",
}
_WHERE_WRITTEN = {  # of the methods that have such an argument
    "packing": "packing",
    "packing_strategy": "packing_strategy",
    "max_completion_length": "max_new_tokens",
    "num_generations": "per_prompt",
    "max_tool_calling_iterations": "tool_rounds",
    "temperature": "temperature",
    "gae_lambda": "gae_lambda",
    "clip_range": "clip_range",
    "target_kl": "target_kl",
    "answer_passes": "answer_passes",
    "value_weight": "value_weight",
    "missing_eos_penalty": "missing_eos_penalty",
    "undesirable_weight": "undesirable_weight",
    "desirable_weight": "desirable_weight",
    "center_rewards_coefficient": "center_rewards_coefficient",
}
_LORA = {"r": "lora_rank", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout"}
_LIMITS = {"MAX_ROWS": "eval_samples", "MAX_LENGTH": "max_length"}  # constant of evaluate.py -> the decision
_ORDERS = {"similar-lengths": "group_by_length"}  # transformers 5.23 TrainingArguments.train_sampling_strategy
_SCHEDULES = {"constant": "constant_with_warmup"}  # transformers 5.23 SchedulerType; others with other hyphens
_LEARNED = {"assistant_only_loss": "assistant", "completion_only_loss": "completion"}  # the loss_on that sets each


def argument_problems(stage: BundleStage) -> Iterator[str]:
    """Every setting of train.py, and every limit of evaluate.py, that is not what the plan decided."""
    yield from differences("train.py", stage.arguments, planned_arguments(stage))
    yield from differences("lora_config of train.py", _adapter(stage), _planned_adapter(stage))
    yield from differences("train.py", _stopping(stage), _planned_stopping(stage))
    yield from _interval_problems(stage)
    yield from differences("evaluate.py", _limits(stage), _planned_limits(stage))


def differences(name: str, found: Mapping[str, Any], planned: Mapping[str, Any]) -> Iterator[str]:
    """Every key of `planned` that has another value in what was `found` in the file `name`."""
    for key, value in planned.items():
        if found.get(key) != value:
            yield f"{name}: {key} is {found.get(key)}, the plan says {value}"


def planned_arguments(stage: BundleStage) -> dict[str, Any]:
    """The arguments of the trainer's configuration that follow from decisions, with their values."""
    tables = _SAME if stage.loop.own else _SAME | _OF_THE_TRAINER
    told = {name: id for name, id in _WHERE_WRITTEN.items() if name in stage.arguments}
    left_out = stage.method.unread_arguments
    found = {
        name: stage.decisions[id]
        for name, id in (tables | told).items()
        if id in stage.decisions and name not in left_out
    }
    if "train_sampling_strategy" in found:
        found["train_sampling_strategy"] = _ORDERS.get(stage.decisions["sampling"], stage.decisions["sampling"])
    return found | _computed(stage) | ({} if stage.loop.own else _of_the_trainer(stage))


def _computed(stage: BundleStage) -> dict[str, Any]:
    schedule = stage.decisions["schedule"]
    found = {"lr_scheduler_type": _SCHEDULES.get(schedule, schedule.replace("-", "_"))}
    return found if stage.method.generates else found | {"max_length": stage.decisions["max_length"]}


def _of_the_trainer(stage: BundleStage) -> dict[str, Any]:
    """What a trainer of a library is told of number formats, the better result and the tokens that are learned."""
    best = stage.decisions["best_metric"]
    found = {
        "bf16": stage.choice["precision"] == "bf16",
        "load_best_model_at_end": True,
        "greater_is_better": "loss" not in best,
        "eval_strategy": "steps",
        "save_strategy": "steps",
    }
    learned = {name: stage.decisions["loss_on"] == on for name, on in _LEARNED.items() if name in stage.arguments}
    betas = [value for id, value in stage.decisions.items() if id == "beta" or id.endswith("_beta")]
    beta = {"beta": betas[0]} if len(betas) == 1 and "beta" in stage.arguments else {}
    return found | learned | beta


def _adapter(stage: BundleStage) -> Mapping[str, Any]:
    return call_arguments(function(stage.script, "lora_config"))


def _planned_adapter(stage: BundleStage) -> dict[str, Any]:
    """Of an adapter that train.py makes: one that training goes on with has a configuration of its own."""
    made = {} if "init_from" in stage.decisions else _LORA
    return {name: stage.decisions[id] for name, id in made.items() if id in stage.decisions}


def _limits(stage: BundleStage) -> Mapping[str, Any]:
    """The rows that evaluate.py scores at most, and the length that they are cut at."""
    found = {name: assigned(stage.root / stage.folder / "evaluate.py", name) for name in _LIMITS}
    return {name: ast.literal_eval(value) for name, value in found.items() if value is not None}


def _planned_limits(stage: BundleStage) -> dict[str, Any]:
    """A method that scores the rows as they are written cuts none of them."""
    return {name: stage.decisions[id] for name, id in _LIMITS.items() if id != "max_length" or stage.method.writes}


def _stopping(stage: BundleStage) -> Mapping[str, Any]:
    return every_keyword(function(stage.script, "main"))


def _planned_stopping(stage: BundleStage) -> dict[str, Any]:
    patience = stage.decisions["early_stopping_patience"]
    return {"patience": patience} if patience and not stage.loop.own else {}


def _interval_problems(stage: BundleStage) -> Iterator[str]:
    """Intervals that are neither the planned share of the steps nor about as many steps."""
    for name, id in (("eval_steps", "eval_every"), ("save_steps", "save_every")):
        found, share = stage.arguments.get(name), stage.decisions[id]
        steps = share * stage.decisions["total_steps"] if share <= 1 else share
        if not (found == share or (isinstance(found, int) and isclose(found, steps, rel_tol=0.5, abs_tol=8))):
            yield f"train.py: {name} is {found}, the plan evaluates and saves by {id} {share}"
