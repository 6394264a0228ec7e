"""What the decisions of a plan say of the settings in train.py: a table beside the one that compiles them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from recipec.axes.variants import VARIANTS
from recipec.catalog.gpus import gpu
from recipec.verify.bundle import BundleStage, assigned, call_arguments, every_keyword, function, keywords
from recipec.verify.static.unplanned import unplanned_problems

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
    "train_sampling_strategy": "sampling",
}
_OF_THE_LOADER = {  # where batches come from workers
    "dataloader_pin_memory": "pin_memory",
    "dataloader_prefetch_factor": "prefetch_factor",
    "dataloader_persistent_workers": "persistent_workers",
}
_LORA = {"r": "lora_rank", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout"}
_LIMITS = {"MAX_ROWS": "eval_samples", "MAX_LENGTH": "max_length"}  # constant of evaluate.py -> the decision
_ORDERS = {"similar-lengths": "group_by_length"}  # transformers 5.23 TrainingArguments.train_sampling_strategy
_SCHEDULES = {"constant": "constant_with_warmup"}  # transformers 5.23 SchedulerType; others with other hyphens
_OPTIMIZERS = {  # transformers 5.23 OptimizerNames
    "adamw": "adamw_torch_fused",
    "paged-adamw": "paged_adamw_32bit",
    "lion": "lion_32bit",
}
_CONSTANT = {"adam_beta1": 0.9, "adam_epsilon": 1e-8}  # where they are written: not every optimizer has them
_FORMATS = ("bf16", "fp16", "tf32", "torch_compile")  # of numbers, where they are off and not written
_DECAY = "the share of the steps in lr_scheduler_kwargs"
_TF32 = 8.0  # compute capability from which products of fp32 are rounded to TF32
_LEARNED = {"assistant_only_loss": "assistant", "completion_only_loss": "completion"}  # the loss_on that sets each


def argument_problems(stage: BundleStage) -> Iterator[str]:
    """Every setting of train.py, and every limit of evaluate.py, that is not what the plan decided."""
    planned = planned_arguments(stage) | _only_written(stage)
    yield from differences("train.py", stage.arguments, planned)
    yield from differences("train.py", _decay(stage), _planned_decay(stage))
    share = ["lr_scheduler_kwargs"] if _planned_decay(stage) else []
    yield from unplanned_problems(stage, {*planned, *_FORMATS, *share})
    trainer = every_keyword(function(stage.script, "main"))
    yield from differences("trainer of train.py", trainer, _own(stage, _OF_TRAINER))
    yield from differences("lora_config of train.py", _adapter(stage), _planned_adapter(stage))
    yield from differences("train.py", _stopping(stage), _planned_stopping(stage))
    yield from _interval_problems(stage)
    yield from _unsaved(stage)
    yield from differences("evaluate.py", _limits(stage), _planned_limits(stage))


def differences(name: str, found: Mapping[str, Any], planned: Mapping[str, Any]) -> Iterator[str]:
    """Every key of `planned` that has another value in what was `found` in the file `name`."""
    for key, value in planned.items():
        if found.get(key) != value:
            yield f"{name}: {key} is {found.get(key)}, the plan says {value}"


def planned_arguments(stage: BundleStage) -> dict[str, Any]:
    """The arguments of the trainer's configuration that follow from decisions, and that a run still has as they are."""
    tables = _SAME if stage.loop.own else _SAME | _OF_THE_TRAINER
    left_out = (*stage.method.unread_arguments, *["save_total_limit"] * (not stage.saves and not stage.loop.own))
    decided = {name: id for name, id in tables.items() if id in stage.decisions and name not in left_out}
    found = {name: stage.decisions[id] for name, id in decided.items()}
    if "train_sampling_strategy" in found:
        found["train_sampling_strategy"] = _ORDERS.get(stage.decisions["sampling"], stage.decisions["sampling"])
    return found | _computed(stage) | ({} if stage.loop.own else _of_the_trainer(stage) | _own(stage, _AS_DECIDED))


def _own(stage: BundleStage, where: str) -> dict[str, Any]:
    """The arguments that carry hyperparameters which not every method has: those that are held to the plan there."""
    return {name: value for name, value, place in _hyperparameters(stage) if place == where}


_AS_DECIDED, _COMPUTED, _OF_TRAINER = "as decided", "computed", "of the trainer that the bundle brings"


def _hyperparameters(stage: BundleStage) -> Iterator[tuple[str, Any, str]]:
    """Each of them: the argument that carries it, its value, and where that is."""
    for own in stage.method.keys:
        if own.argument and own.name in stage.decisions:
            value = stage.decisions[own.name]
            if own.of_trainer:
                yield own.argument, value, _OF_TRAINER
            elif own.argument in _IN_ANOTHER_FORM:
                yield own.argument, _IN_ANOTHER_FORM[own.argument](stage, value), _COMPUTED
            else:
                yield own.argument, value, _AS_DECIDED


def _loss(stage: BundleStage, decided: str) -> Any:
    """Of GRPO that of the variant; of DPO a list, to which further losses may be added."""
    if decided in VARIANTS:
        return VARIANTS[decided].loss_type
    return [decided] if stage.method.config == "DPOConfig" else decided


def _micro_steps(stage: BundleStage, updates: int) -> int:
    return updates * stage.choice["gradient_accumulation"]


_IN_ANOTHER_FORM: dict[str, Callable[[BundleStage, Any], Any]] = {  # argument -> what it is for a decided value
    "loss_type": _loss,
    "steps_per_generation": _micro_steps,
}


def _only_written(stage: BundleStage) -> dict[str, Any]:
    """Arguments that a rehearsal, which is smaller, may change on its way to the trainer."""
    if stage.loop.own:
        patience = stage.decisions["early_stopping_patience"]
        return {"load_best_model_at_end": True} | ({"early_stopping_patience": patience} if patience else {})
    optimizer = stage.choice["optimizer"]
    found = {"optim": _OPTIMIZERS.get(optimizer, optimizer.replace("-", "_"))}
    if stage.method.uses_loader:
        found |= {name: stage.decisions[id] for name, id in _OF_THE_LOADER.items() if id in stage.decisions}
    if "eos_token" in stage.arguments:
        found["eos_token"] = stage.decisions.get("eos_token")
    return found | _numbers(stage) | _own(stage, _COMPUTED)


def _numbers(stage: BundleStage) -> dict[str, bool]:
    """Formats of numbers beside bf16, and the compiler: on where decided, off or not written where they are not."""
    row = gpu(stage.decisions["gpu"])
    wanted = {"fp16": stage.choice["precision"] == "fp16", "torch_compile": bool(stage.decisions["compile"])}
    if row is not None:
        wanted["tf32"] = row.vendor == "nvidia" and (row.capability or 0) >= _TF32
    return {name: on for name, on in wanted.items() if on or name in stage.arguments}


def _computed(stage: BundleStage) -> dict[str, Any]:
    schedule = stage.decisions["schedule"]
    found = {"lr_scheduler_type": _SCHEDULES.get(schedule, schedule.replace("-", "_"))}
    found |= {name: value for name, value in _CONSTANT.items() if name in stage.arguments}
    return found if stage.method.generates else found | {"max_length": stage.decisions["max_length"]}


def _of_the_trainer(stage: BundleStage) -> dict[str, Any]:
    """What a trainer of a library is told of number formats, the better result and the tokens that are learned."""
    found = {
        "bf16": stage.choice["precision"] == "bf16",
        "eval_strategy": "steps",
        "save_strategy": "steps" if stage.saves else "no",
    }
    found |= _of_the_best(stage) if stage.saves else {}
    wanted = {name: stage.decisions["loss_on"] == on for name, on in _LEARNED.items()}
    return found | {name: on for name, on in wanted.items() if name in stage.arguments} | _of_sft(stage, wanted)


def _of_the_best(stage: BundleStage) -> dict[str, Any]:
    """Which of the checkpoints is the result."""
    best = stage.decisions["best_metric"]
    return {"load_best_model_at_end": True, "metric_for_best_model": best, "greater_is_better": "loss" not in best}


def _of_sft(stage: BundleStage, learned: Mapping[str, bool]) -> dict[str, Any]:
    """What must be written where TRL's SFTTrainer reads it: its defaults are others."""
    if stage.method.config != "SFTConfig":
        return {}
    packed = {"packing_strategy": stage.decisions.get("packing_strategy")} if stage.decisions["packing"] else {}
    return {"packing": stage.decisions["packing"]} | packed | {name: on for name, on in learned.items() if on}


def _decay(stage: BundleStage) -> Mapping[str, Any]:
    """The share of the steps in which the rate falls, which the schedule is given as a product."""
    given = keywords(function(stage.script, "training_config")).get("lr_scheduler_kwargs")
    products = (part for part in ast.walk(given) if isinstance(part, ast.BinOp)) if given else ()
    share = next((part.left.value for part in products if isinstance(part.left, ast.Constant)), None)
    return {_DECAY: share}


def _planned_decay(stage: BundleStage) -> dict[str, Any]:
    return {_DECAY: stage.decisions["decay_share"]} if "decay_share" in stage.decisions else {}


def _adapter(stage: BundleStage) -> Mapping[str, Any]:
    return call_arguments(function(stage.script, "lora_config"))


def _planned_adapter(stage: BundleStage) -> dict[str, Any]:
    """Of an adapter that train.py makes: one that training goes on with has a configuration of its own."""
    if "init_from" in stage.decisions or "lora_rank" not in stage.decisions:
        return {}
    found = {name: stage.decisions[id] for name, id in _LORA.items() if id in stage.decisions}
    return found | dict(stage.variant.arguments)


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
    """Intervals that are neither the planned share of the steps nor as many steps; checkpoints of no plan."""
    if stage.arguments.get("save_steps") and not stage.saves:
        yield f"train.py: save_steps is {stage.arguments['save_steps']}, the plan has no checkpoint"
    intervals = [("eval_steps", "eval_every"), *[("save_steps", "save_every")] * bool(stage.saves)]
    for (name, id), steps in zip(intervals, stage.steps_apart, strict=False):
        found, share = stage.arguments.get(name), stage.decisions[id]
        if found not in (share, steps):
            yield f"train.py: {name} is {found}, the plan evaluates and saves by {id} {share}"


def _unsaved(stage: BundleStage) -> Iterator[str]:
    """What a loop of the bundle's own never calls, and so never writes: its checkpoints, or its result."""
    if not stage.loop.own:
        return
    tree = ast.parse(stage.script.read_text(encoding="utf-8"), filename=str(stage.script))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {call.attr if isinstance(call, ast.Attribute) else ast.unparse(call) for call in calls}
    wanted = {"save": "checkpoints", "save_checkpoint": "checkpoints"} if stage.saves else {}
    for name, what in (wanted | {"finish": "result", "save_model": "result"}).items():
        if name not in called:
            yield f"train.py never calls {name}(): the run writes no {what}"
