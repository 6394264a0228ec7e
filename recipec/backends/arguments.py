"""The arguments of the trainer's configuration class, in the order a reader looks for them.

Every argument with training meaning is written out, because library defaults change between versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from recipec.axes import BASES
from recipec.backends.dequantized import loaded_before
from recipec.backends.intervals import NO_CHECKPOINT, interval, saves, saves_apart, saving_note
from recipec.backends.job import StageJob
from recipec.backends.methods import BACKENDS
from recipec.backends.models import pinned_revision, weights_dtype
from recipec.catalog.model_types import MODEL_TYPES
from recipec.recipe.trainer_arguments import arguments_of
from recipec.render.call import Arg, Call
from recipec.render.literals import py
from recipec.render.traced import Raw
from recipec.rules.loader import tokenizing_processes

OPTIMIZERS = {  # transformers 5.23 OptimizerNames
    "adamw": "adamw_torch_fused",
    "adamw-8bit": "adamw_8bit",
    "paged-adamw": "paged_adamw_32bit",
    "paged-adamw-8bit": "paged_adamw_8bit",
    "adafactor": "adafactor",
    "lion": "lion_32bit",
    "lion-8bit": "lion_8bit",
    "sgd": "sgd",
}
SCHEDULES = {"constant": "constant_with_warmup", "warmup-stable-decay": "warmup_stable_decay"}  # others: as they are
TF32_CAPABILITY = 8.0  # Ampere and later multiply fp32 matrices in TF32
USUAL_TIMEOUT_SECONDS = 1800  # transformers 5.23, TrainingArguments.ddp_timeout
_TIMEOUT = "ddp_timeout"  # a recipe may set it under [train.arguments]
_IN_CODE = frozenset(  # what a loop of the bundle's own says in its code
    (
        *("optim", "eval_strategy", "eval_on_start", "save_strategy", "metric_for_best_model", "greater_is_better"),
        *("logging_nan_inf_filter", "dataloader_persistent_workers"),
    )
)
PATIENCE_FOR_ANSWERS = 3  # times what writing them is predicted to take, which is a mean over ranks; our decision
# times what a save is assumed to take: the slowest that was published, at 0.13 GB/s, takes as much longer (`Rates`)
PATIENCE_FOR_SAVES = 8
PATIENCE_FOR_DOWNLOADS = 3  # times what it is assumed to take: the slowest that was published had 0.1 GB/s (`Rates`)
PATIENCE = 6  # times what tokenizing is predicted to take: many processes share memory and disk; our decision


def training_config(stage: StageJob) -> Call:
    """The configuration of the stage's trainer."""
    groups = (_run, _batch, _optimizer, _numerics, _rows, _evaluation, _checkpoints, _logging, _loader, _model)
    return Call(stage.method.config, [arg for group in groups for arg in group(stage)] + _verbatim(stage))


def loop_settings(stage: StageJob) -> Call:
    """The same values for a loop of the bundle's own, without those that its code says itself."""
    groups = (_run, _batch, _optimizer, _length, _evaluation, _checkpoints, _stopping, _logging, _loader)
    given = [arg for group in groups for arg in group(stage) if arg.name not in _IN_CODE]
    return Call("Settings", given)


def _length(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("max_length", "max_length", note=True)


def _stopping(stage: StageJob) -> Iterator[Arg]:
    if stage.value("early_stopping_patience"):
        yield stage.arg("early_stopping_patience", "early_stopping_patience")


def _run(stage: StageJob) -> Iterator[Arg]:
    yield Arg("output_dir", Raw("str(args.output_dir)"))
    yield stage.arg("seed", "seed")
    yield stage.arg("num_train_epochs", "epochs")
    yield Arg("max_steps", Raw("args.max_steps"))


def _batch(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("per_device_train_batch_size", "micro_batch_size")
    yield stage.arg("gradient_accumulation_steps", "gradient_accumulation", note=True)
    yield stage.arg("per_device_eval_batch_size", "eval_batch_size")


def _optimizer(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("learning_rate", "learning_rate")
    yield stage.arg("lr_scheduler_type", "schedule", SCHEDULES.get(stage.value("schedule")))
    if stage.value("schedule") == "warmup-stable-decay":
        yield _decay(stage)
    warmup = stage.arg("warmup_steps", "warmup")
    yield Arg(warmup.name, warmup.value, warmup.decisions, "below 1: a share of all steps")
    yield stage.arg("optim", "optimizer", OPTIMIZERS[stage.value("optimizer")])
    if "adam_beta2" in stage.plan.decisions:
        yield Arg("adam_beta1", 0.9)
        yield stage.arg("adam_beta2", "adam_beta2")
    if "adamw" in stage.value("optimizer"):
        yield Arg("adam_epsilon", 1e-8)
    yield stage.arg("weight_decay", "weight_decay")
    yield stage.arg("max_grad_norm", "max_grad_norm")


def _decay(stage: StageJob) -> Arg:
    """The length of the decay, which the pinned stack wants in steps."""
    steps, share = "args.max_steps", stage.value("decay_share")
    if stage.value("max_steps") < 0:
        steps = f"({steps} if {steps} > 0 else {stage.value('total_steps'):_})"
    value = {"num_decay_steps": Raw(f"int({share} * {steps})")}
    ids = stage.ids("decay_share", "total_steps", "max_steps", "schedule")
    return Arg("lr_scheduler_kwargs", value, ids, f"the last {share:g} of the steps, planned or asked for")


def _numerics(stage: StageJob) -> Iterator[Arg]:
    precision = stage.value("precision")
    if stage.on_cpu:
        yield stage.arg("use_cpu", "gpu", True)
    yield stage.arg("bf16", "precision", precision == "bf16")
    if precision == "fp16":
        yield stage.arg("fp16", "precision", True)
    if has_tf32(stage):
        yield stage.arg("tf32", "gpu", True)
    yield stage.arg("activation_checkpointing", "checkpointing", stage.value("checkpointing"))
    if stage.value("checkpointing"):
        ids = stage.ids("checkpointing", "recompute_every", "activation_offload", "strategy", "adaptation")
        yield Arg("activation_checkpointing_kwargs", _recomputation(stage), ids, _recomputed(stage))
    if stage.value("compile"):
        yield stage.arg("torch_compile", "compile")
    if stage.fp8:
        yield Arg("pad_to_multiple_of", 16, stage.ids("fp8"), "products in FP8 need it")
    yield from stage.engine.arguments(stage.run)


def has_tf32(stage: StageJob) -> bool:
    """Whether the GPU multiplies fp32 matrices in TF32."""
    gpu = stage.job.facts.gpu
    return gpu.vendor == "nvidia" and (gpu.capability or 0) >= TF32_CAPABILITY


def _recomputation(stage: StageJob) -> dict[str, Any]:
    """Which layers are recomputed, and where their inputs wait."""
    options: dict[str, Any] = {"use_reentrant": _reenters(stage)}
    if stage.value("recompute_every") > 1:
        options["every_n_layers"] = stage.value("recompute_every")
    if stage.value("activation_offload"):
        options["offload"] = True
    return options


def _sounds_balanced(stage: StageJob) -> bool:
    """Whether the trainer would add a loss for the balance of experts that it cannot compute for this type."""
    row = MODEL_TYPES[stage.job.facts.model.architecture.model_type]
    return row.sounds_balanced and "router_aux_loss_coef" in arguments_of(stage.method.config)


def _reenters(stage: StageJob) -> bool:
    return stage.strategy.reenters(stage.adapts)


def _recomputed(stage: StageJob) -> str:
    """A note on what is not usual; FSDP's own switch is not used, since its wrappers hide adapters from a save."""
    some = "the other layers keep their activations" if stage.value("recompute_every") > 1 else ""
    hosted = "inputs of recomputed layers wait in pinned host memory" if stage.value("activation_offload") else ""
    return "; ".join(filter(None, (stage.engine.recomputing, _why_reentrant(stage), some, hosted)))


def _why_reentrant(stage: StageJob) -> str:
    """Why layers are recomputed by the older checkpoint, where they are."""
    if BASES[stage.adapts.base].rounds_inputs:
        return "the other kind leaves the inputs of all 8-bit layers on the GPU"
    return "TRL takes no other value for an adapter under ZeRO-3" if _reenters(stage) else ""


def _rows(stage: StageJob) -> Iterator[Arg]:
    known = arguments_of(stage.method.config)
    if "max_length" in known:
        yield stage.arg("max_length", "max_length", note=True)
    if stage.eos_token and "eos_token" in known:
        yield Arg("eos_token", stage.eos_token, stage.ids("eos_token"), "ends the turns of the chat template")
    yield from BACKENDS[stage.method.name].arguments(stage)
    if stage.plan.layout.precomputes:
        yield _precomputed(stage)
    if stage.routes:
        yield stage.arg("router_aux_loss_coef", "router_loss", note=True)
    elif _sounds_balanced(stage):
        experts = stage.job.facts.model.architecture.moe
        why = "TRL cannot compute this loss for this model type" if experts else "its layers have no experts to balance"
        yield Arg("router_aux_loss_coef", 0.0, stage.ids("model"), why)
    if stage.method.drops_dropout:
        yield _dropout(stage)
    if stage.groups_by_length:
        note = "orders evaluations; similar_lengths.py orders the training"
        yield Arg("train_sampling_strategy", "group_by_length", stage.ids("sampling"), note)
    elif "train_sampling_strategy" not in stage.method.unread_arguments:
        yield stage.arg("train_sampling_strategy", "sampling", note=True)


def _precomputed(stage: StageJob) -> Arg:
    """Scored by adapters switched off, a trial of a few steps need not wait for all rows."""
    ids = stage.ids("precomputed_reference")
    if stage.adapts.copies_reference:
        return Arg(stage.method.precomputes, True, ids, "the reference scores all rows before step 1, and is let go")
    whole = Raw(f"args.max_steps == {py(stage.traced('max_steps'))}")
    return Arg(stage.method.precomputes, whole, ids, "the reference scores all rows once; a trial does as it goes")


def _dropout(stage: StageJob) -> Arg:
    """The trainer would switch all dropout off, that of adapters too."""
    return Arg("disable_dropout", _off(stage), stage.ids(_of_dropout(stage)))


def _off(stage: StageJob) -> bool:
    """Whether all dropout is off, because adapters have none."""
    return "lora_dropout" not in stage.plan.decisions or not stage.value("lora_dropout")


def _of_dropout(stage: StageJob) -> str:
    """The decision that switches dropout on or off."""
    return "lora_dropout" if "lora_dropout" in stage.plan.decisions else "adaptation"


def _evaluation(stage: StageJob) -> Iterator[Arg]:
    yield Arg("eval_strategy", "steps", stage.ids("eval_every"))
    note = "steps" if saves_apart(stage) else "a share of all steps"
    yield interval(stage, "eval_steps", "eval_every", f"{note}; cut short, half way and at the end")
    yield Arg("eval_on_start", True, stage.ids("eval_every"), "the baseline, and proof that evaluation fits")


def _checkpoints(stage: StageJob) -> Iterator[Arg]:
    if saves(stage) or stage.loop.own:
        yield Arg("save_strategy", "steps", stage.ids("save_every"))
        yield interval(stage, "save_steps", "save_every", saving_note(stage))
        kept = stage.ids("keep_checkpoints", "save_every", "eval_every")  # without checkpoints there is no such line
        yield Arg("save_total_limit", stage.value("keep_checkpoints"), kept)
        yield Arg("load_best_model_at_end", True, stage.ids("best_metric"))
        yield stage.arg("metric_for_best_model", "best_metric")
        yield Arg("greater_is_better", stage.method.earns, stage.ids("best_metric"))
    else:
        yield Arg("save_strategy", "no", stage.ids("save_every", "eval_every"), NO_CHECKPOINT)


def _logging(stage: StageJob) -> Iterator[Arg]:
    yield stage.arg("logging_steps", "logging_steps")
    yield Arg("logging_nan_inf_filter", False, (), "a NaN is shown, not logged as 0")
    yield stage.arg("report_to", "tracker")
    run = stage.value("track_run") + f"-{stage.name}" * (len(stage.job.stages) > 1)
    yield Arg("run_name", run, stage.ids("track_run"))


def _loader(stage: StageJob) -> Iterator[Arg]:
    if stage.method.uses_loader:
        yield stage.arg("dataloader_num_workers", "dataloader_workers")
        yield stage.arg("dataloader_pin_memory", "pin_memory")
    yield from _tokenizing(stage)
    yield from _waiting(stage)
    if stage.method.uses_loader:
        yield stage.arg("dataloader_prefetch_factor", "prefetch_factor")
        yield stage.arg("dataloader_persistent_workers", "persistent_workers")


def _tokenizing(stage: StageJob) -> Iterator[Arg]:
    """The trainer's own pass over the rows."""
    processes = tokenizing_processes(stage.values)
    if processes > 1:
        ids = stage.ids("examples", "tokens_per_example", "host_cores", "dataloader_workers")
        yield Arg("dataset_num_proc", processes, ids, "processes that tokenize while the GPUs wait")


def _waiting(stage: StageJob) -> Iterator[Arg]:
    """Ranks wait for the first one's pass over the rows, for the longest answers, for the models of nodes that do not
    share a cache, and for saves, as long as the timeout lets.

    A loop of the bundle's own always names it: the defaults of accelerate and DeepSpeed are 10 minutes.
    """
    waits = {
        "the rows": PATIENCE * stage.plan.tokenizing_seconds,
        "answers": PATIENCE_FOR_ANSWERS * stage.plan.writing_seconds,
        "a node's download": PATIENCE_FOR_DOWNLOADS * stage.plan.downloading_seconds * (stage.nodes > 1),
        "a save": PATIENCE_FOR_SAVES * stage.plan.needs.saving_seconds,
    }
    what, seconds = max(waits.items(), key=lambda wait: wait[1])
    long = seconds > USUAL_TIMEOUT_SECONDS
    if stage.value("world_size") > 1 and (long or stage.loop.own) and _TIMEOUT not in stage.plan.verbatim:
        ids = stage.ids("examples", "tokens_per_example", "world_size", "prediction")
        patience = in_hours(seconds) if long else USUAL_TIMEOUT_SECONDS
        yield Arg(_TIMEOUT, patience, ids, f"seconds that the other ranks wait for {what}")


def in_hours(seconds: float) -> int:
    """Seconds, rounded up to whole hours."""
    return ceil(seconds / 3600) * 3600


def _model(stage: StageJob) -> Iterator[Arg]:
    if stage.method.random_weights:
        return  # train.py makes the model itself
    model = stage.job.loaded.recipe.model
    options = {
        "dtype": stage.because(weights_dtype(stage), "adaptation", "precision", "strategy"),
        "attn_implementation": stage.traced("attention"),
    }
    if revision := pinned_revision(stage):
        options["revision"] = stage.traced("model", revision)
    if model.trust_remote_code:
        options["trust_remote_code"] = stage.traced("model", True)
    dequantizes = loaded_before(stage)
    options |= {each.name: each.value for each in dequantizes}
    note = "; ".join(each.note for each in dequantizes)
    if stage.plan.needs.reference_under_fsdp:
        options["device_map"] = stage.because(None, "strategy", "adaptation")
        spread = "under FSDP, TRL 1.16 would spread the reference over all GPUs in every rank"
        note = "; ".join(filter(None, (note, spread)))
    if stage.job.facts.model.architecture.attention_dropout and stage.method.drops_dropout and _off(stage):
        options["attention_dropout"] = stage.because(0.0, "model", _of_dropout(stage))
        note = "; ".join(filter(None, (note, "disable_dropout of TRL 1.16 leaves that of attention on")))
    yield Arg("model_init_kwargs", options, note=note)


def _verbatim(stage: StageJob) -> list[Arg]:
    """What the recipe passes through, in its own order; recipe/kept_arguments.py refuses what is set here."""
    return [Arg(name, value, stage.ids("stage")) for name, value in stage.plan.verbatim.items()]
