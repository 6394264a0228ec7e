"""What a recipe hands on as it is: keywords of the trainer and variables of the environment."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import date, time
from keyword import iskeyword
from typing import Any

from recipec.axes import METHODS, Method, methods_of
from recipec.axes.method import PRECOMPUTE
from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.recipe.document import Written
from recipec.recipe.locate import KeyPath, dotted

_OWN = [own for row in METHODS.values() for own in row.keys if own.argument]
# Keyword of the trainer's configuration -> the recipe key to use instead; empty where the recipe has none.
DECIDED_ARGUMENTS: dict[str, str] = {
    "learning_rate": "train.learning_rate",
    "num_train_epochs": "train.epochs",
    "max_steps": "train.max_steps",
    "per_device_train_batch_size": "train.micro_batch_size",
    "per_device_eval_batch_size": "",
    "gradient_accumulation_steps": "train.global_batch_size",
    "lr_scheduler_type": "train.schedule",
    "lr_scheduler_kwargs": "train.schedule",
    "warmup_steps": "train.warmup",
    "weight_decay": "train.weight_decay",
    "value_clip_range": "alignment.clip_range",
    "adam_beta1": "",
    "adam_beta2": "",
    "adam_epsilon": "",
    "max_grad_norm": "train.max_grad_norm",
    "optim": "train.optimizer",
    "optim_args": "train.optimizer",  # a momentum of SGD, say, is memory that the plan would not have
    "optim_target_modules": "train.optimizer",
    "bf16": "train.precision",
    "fp16": "train.precision",
    "tf32": "train.precision",
    "use_cpu": "hardware.gpu",
    "activation_checkpointing": "train.activation_checkpointing",
    "gradient_checkpointing": "train.activation_checkpointing",
    "activation_checkpointing_kwargs": "train.recompute_every",
    "activation_offloading": "train.activation_offload",
    "parallelism_config": "train.strategy",
    "trust_remote_code": "model.trust_remote_code",
    "dataset_text_field": "data.columns",
    "gradient_checkpointing_kwargs": "train.recompute_every",
    "max_length": "data.max_length",
    "packing": "train.packing",
    "packing_strategy": "train.packing",
    "seed": "recipe.seed",
    "data_seed": "recipe.seed",
    "output_dir": "",
    "eval_strategy": "train.eval_every",
    "eval_steps": "train.eval_every",
    "eval_on_start": "",
    "save_strategy": "train.save_every",
    "save_steps": "train.save_every",
    "save_total_limit": "train.keep_checkpoints",
    "load_best_model_at_end": "",
    "metric_for_best_model": "",
    "greater_is_better": "",
    "logging_steps": "train.logging_steps",
    "logging_nan_inf_filter": "",
    "report_to": "track.to",
    "run_name": "track.run",
    "project": "track.project",
    "dataset_num_proc": "",
    "teacher_model_name_or_path": "alignment.teacher",
    "teacher_model_revision": "alignment.teacher.revision",
    "teacher_model_init_kwargs": "",
    "dataloader_num_workers": "",
    "dataloader_pin_memory": "",
    "dataloader_prefetch_factor": "",
    "dataloader_persistent_workers": "",
    "train_sampling_strategy": "",
    "assistant_only_loss": "",
    "completion_only_loss": "",
    "remove_unused_columns": "",
    "label_smoothing": "alignment.loss",
    "disable_dropout": "train.lora",
    **dict.fromkeys(
        (
            *("importance_sampling_level", "scale_rewards", "epsilon", "epsilon_high", "sapo_temperature_pos"),
            *("sapo_temperature_neg", "mask_truncated_completions", "cast_lm_head_to_fp32"),
        ),
        "alignment.variant",
    ),
    "use_bias_correction_kl": "",
    "reward_weights": "alignment.reward",
    "generation_batch_size": "alignment.generation.updates",
    "num_generations_eval": "",
    "shuffle_dataset": "",
    "chat_template_kwargs": "data.reasoning",
    **{row.precomputes: f"alignment.{PRECOMPUTE}" for row in METHODS.values() if row.precomputes},
    "chat_template_path": "data.template",
    "eos_token": "",
    "router_aux_loss_coef": "",
    "torch_compile": "train.compile",
    "model_init_kwargs": "",
    "deepspeed": "train.strategy",
    "fsdp": "train.strategy",
    "fsdp_config": "train.strategy",
    "accelerator_config": "train.strategy",
    "ddp_find_unused_parameters": "",
} | {own.argument: f"alignment.{own.key}" for own in _OWN if not own.of_trainer}
# Keyword of a trainer that a bundle brings, which is not its configuration's -> the recipe key to use instead.
BROUGHT_ARGUMENTS = {own.argument: f"alignment.{own.key}" for own in _OWN if own.of_trainer}

# Keyword that would make the run another than the planned one, or that needs what a bundle does not bring -> why.
UNFIT_ARGUMENTS = {
    **dict.fromkeys(
        ("use_liger_kernel", "liger_kernel_config"),
        "TRL computes the loss without whole logits and refuses Liger's fused one; liger-kernel is not installed",
    ),
    **dict.fromkeys(("padding_free", "eval_packing"), "`train.packing` decides what shares a row, in evaluations too"),
    "auto_find_batch_size": "it changes the planned batch when memory runs out",
    "dataloader_drop_last": "it leaves rows out, and the steps are not those of the plan",
    "ignore_data_skip": "a resumed run would train on other rows than are left",
    "resume_from_checkpoint": "train.py takes --resume, and refuses the checkpoints of other runs",
    "save_only_model": "checkpoints could not be resumed",
    "truncation_mode": "prepare_data.py, the plan and evaluate.py cut the end off",
    **dict.fromkeys(
        ("use_transformers_continuous_batching", "use_transformers_paged"),
        "the plan is for answers that transformers' `generate` or vLLM writes: see `alignment.generation.engine`",
    ),
    **dict.fromkeys(
        ("use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size"),
        'set `alignment.generation.engine = "vllm"`, for which the plan counts memory and time',
    ),
    **dict.fromkeys(
        ("top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs"),
        "answers would be drawn from other probabilities than are learned",
    ),
    "num_iterations": "a resumed run would learn from other answers: set `alignment.generation.updates`",
    "ds3_gather_for_generation": "DeepSpeed 0.19.8 stops at the first answer without it",
    "label_names": "evaluations would find no labels, and so no loss",
    "local_rank": "the launcher numbers the processes, and transformers 5.23 does not read it",
    "push_to_hub": "it needs the Hub before step 1 and makes one repository, open to all, of the checkpoints of every "
    "stage: upload the result with `hf upload` after the run",
    **dict.fromkeys(
        ("hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push", "hub_revision"),
        "nothing is uploaded during a run: upload the result with `hf upload` after it",
    ),
    "hub_token": "it would be copied into every bundle: set HF_TOKEN in the environment before the run",
    **dict.fromkeys(
        ("sync_ref_model", "ref_model_sync_steps", "ref_model_mixup_alpha"),
        "it needs another copy of the weights than the plan has memory for",
    ),
}

_BY_LAUNCHER = "set for each process by the launcher; a recipe cannot set it"
_PLANNED = "as planned; the launch script refuses another number unless `OTHER_RANKS=1` is set"
# Variables that a run reads -> what they say. A recipe cannot set them: a fixed value would make the ranks collide.
LAUNCHER_VARIABLES = {
    **dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"), _BY_LAUNCHER),
    "NODE_RANK": "the number of the node, from 0: set it on every node before you start `launch/nodes.sh`",
    "MASTER_ADDR": "the address of the first node: set it on every node before you start `launch/nodes.sh`",
    "MASTER_PORT": "the port on which the processes of a stage meet: 29500 where it is not set",
    "NPROC_PER_NODE": f"the processes of a node, {_PLANNED}",
    "NNODES": f"the nodes, {_PLANNED}",
    "SHARDS": f"the processes that share one copy of the model, {_PLANNED}",
    "OTHER_RANKS": "1 lets the launch script run with other numbers of processes than the planned ones, on purpose",
    "DATA_ROOT": "the folder in which the relative paths of the recipe start when a bundle runs; where the variable is "
    "not set, they start in the folder that you run the commands in",
}
LAUNCHER_PREFIXES = ("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "DEEPSPEED_")


_TABLES = (("train", "arguments"), *(("train", stage, "arguments") for stage in METHODS))


def refused_arguments(written: Written) -> Iterator[Diagnostic]:
    """A keyword that recipec decides would contradict the decision; one that no trainer reads would say nothing."""
    homes = BROUGHT_ARGUMENTS | DECIDED_ARGUMENTS
    for path, name, value in _arguments(written):
        row = _unread_by(written, path, name)
        if row is not None:
            label = Label(written.key(*path), f"{row.title} has another loss")
            yield Diagnostic("E0407", f"`{name}` is not read by the trainer of {row.name}", (label,), ("remove it",))
        elif name in homes:
            label = Label(written.key(*path), "recipec sets this keyword")
            home = _home(written, path, name) or homes[name]
            help = f"set `{home}` instead" if home else "remove it: the recipe has no key for it"
            yield Diagnostic("E0407", f"`{name}` cannot be given as a trainer argument", (label,), (help,))
        elif name in UNFIT_ARGUMENTS:
            label = Label(written.key(*path), UNFIT_ARGUMENTS[name])
            yield Diagnostic("E0407", f"`{name}` cannot be given as a trainer argument", (label,), ("remove it",))
        elif _is_keyword_argument(name):
            yield from _unknown(written, path, name) or _of_another_kind(written, path, name, value)


def _home(written: Written, path: KeyPath, name: str) -> str:
    """The key for a keyword that each method has for itself, of the first that has one; "" where none has."""
    own = (own for row in _rows(written, path) for own in row.keys if own.argument == name)
    return next((f"alignment.{found.key}" for found in own), "")


def _unknown(written: Written, path: KeyPath, name: str) -> list[Diagnostic]:
    """A keyword that no trainer which may run takes would end the run at its start."""
    from recipec.recipe.trainer_arguments import arguments_of

    configs = sorted({row.config for row in _rows(written, path)})
    known = frozenset[str]().union(*map(arguments_of, configs))
    if not configs or name in known:
        return []
    label = Label(written.key(*path), f"no keyword of {' or '.join(configs)}")
    from difflib import get_close_matches

    from recipec.recipe.foreign import KEYS  # which reads the tables above

    near = get_close_matches(name, known - {*DECIDED_ARGUMENTS, *UNFIT_ARGUMENTS}, n=1)
    help = (KEYS[name],) if name in KEYS else (f"did you mean `{near[0]}`?",) if near else ("remove it",)
    return [Diagnostic("E0206", f"`{name}` is not a trainer argument", (label,), help)]


def _of_another_kind(written: Written, path: KeyPath, name: str, value: Any) -> Iterator[Diagnostic]:
    """A value that the keyword's annotation does not allow would end the run, or be taken for another."""
    from recipec.recipe.trainer_arguments import kind_of
    from recipec.recipe.validate import shown  # which reads the tables above

    words, types = kind_of(name)
    if type(value) not in types and not isinstance(value, date | time):
        label = Label(written.value(*path), f"expected {words}")
        yield Diagnostic("E0202", f"`{dotted(path)}` is {shown(value)}", (label,))


def _unread_by(written: Written, path: KeyPath, name: str) -> Method | None:
    """The first of the methods that the keyword could be for, where the trainer of none reads it."""
    rows = _rows(written, path)
    return rows[0] if rows and all(name in row.unread_arguments for row in rows) else None


def _rows(written: Written, path: KeyPath) -> Sequence[Method]:
    """The methods that the keyword of [train.arguments] or [train.STAGE.arguments] could be for."""
    if path[1] in METHODS:
        return [METHODS[str(path[1])]]
    return methods_of(written.get("goal", "task"), written.method)


def unusable_arguments(written: Written) -> Iterator[Diagnostic]:
    """A keyword is one that Python takes; its value a scalar, a list of scalars or a flat table."""
    for path, name, value in _arguments(written):
        if not _is_keyword_argument(name):
            label = Label(written.key(*path), "must be a Python argument name: ASCII, and no Python keyword")
            yield Diagnostic("E0206", f"`{name}` is not a trainer argument", (label,))
        else:
            yield from _unusable(written, path, value, depth=0)


def _is_keyword_argument(name: str) -> bool:
    """Whether `Config(name=...)` is Python; names outside ASCII are out, Python reads some of them as other names."""
    return name.isascii() and name.isidentifier() and not iskeyword(name) and name not in ("self", "__debug__")


def _unusable(written: Written, path: KeyPath, value: Any, depth: int) -> Iterator[Diagnostic]:
    if isinstance(value, dict | list):
        if depth > 0:
            message = "must be text, a number, true or false"
            yield Diagnostic("E0202", f"`{dotted(path)}` is nested too deeply", (written.label(path, message),))
            return
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unusable(written, (*path, key), entry, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Diagnostic("E0205", f"`{dotted(path)}` is {value}", (written.label(path, "must be a finite number"),))
    elif not isinstance(value, str | int | float):
        message = "expected text, a number, true or false"
        yield Diagnostic("E0202", f"`{dotted(path)}` is a date or time", (written.label(path, message),))


def _arguments(written: Written) -> Iterator[tuple[KeyPath, str, Any]]:
    for table in _TABLES:
        for name, value in (written.get(*table) or {}).items():
            yield (*table, name), name, value


_SECRET_NAME = re.compile(r"(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SECRET_VALUE = re.compile(r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,})\b")


def secrets(written: Written) -> Iterator[Diagnostic]:
    """Tokens are read from the environment of whoever runs; a recipe is shared."""
    for name, value in _environment(written):
        if _SECRET_NAME.search(name.upper()) or _SECRET_VALUE.search(value):
            label = Label(_veiled(written, name), "would be copied into every bundle")
            help = (f"remove it and set {name} in the environment before the run", "if it was shared, revoke it")
            yield Diagnostic("E0406", f"`{name}` is a secret", (label,), help)


def _veiled(written: Written, name: str) -> Place:
    """Return the place of a variable's name, its line without the value: diagnostics end up in logs."""
    key, value = written.key("launch", "env", name), written.value("launch", "env", name)
    lines = key.text.split("\n")
    lines[value.span.line - 1] = lines[value.span.line - 1][: value.span.col - 1] + '"…"'
    return Place(key.file, key.span, "\n".join(lines))


def reserved_variables(written: Written) -> Iterator[Diagnostic]:
    """The launcher gives each process its own value of these."""
    for name, _ in _environment(written):
        if name in LAUNCHER_VARIABLES or name.startswith(LAUNCHER_PREFIXES):
            label = Label(written.key("launch", "env", name), "set for each process by the launcher")
            help = "remove it; set OTHER_RANKS=1 and NPROC_PER_NODE when you start the launch script"
            yield Diagnostic("E0407", f"`{name}` cannot be set in a recipe", (label,), (help,))


def _environment(written: Written) -> Iterator[tuple[str, str]]:
    for name, value in (written.get("launch", "env") or {}).items():
        if isinstance(value, str):
            yield name, value
