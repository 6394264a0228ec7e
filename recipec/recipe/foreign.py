"""Words of TRL, transformers, DeepSpeed, axolotl and others, and what a recipe says instead.

What names a method, strategy, adaptation or row format elsewhere is in the rows of recipec.axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from recipec.axes import ADAPTATIONS, METHODS, ROW_FORMATS, STRATEGIES, tasks
from recipec.recipe.clashes import TABLES
from recipec.recipe.passed_on import DECIDED_ARGUMENTS


class Row(Protocol):
    """What the rows of three axes have in common."""

    @property
    def elsewhere(self) -> tuple[str, ...]: ...


_GLOBAL = "set `train.global_batch_size`: recipec decides how it is accumulated"
_NODES = "set `hardware.nodes`"
_MODEL = "set `model.name`"
_STRATEGY = "set `train.strategy`; recipec writes the configuration"
_KERNEL = "set `train.attention`"
_LENGTH = "set `data.max_length`"
_TRAIN_FILE = "set `data.train`"
_GPUS = "set `hardware.gpus_per_node`"
_QUANTIZED = next(f"set `{row.asked_by}`" for row in ADAPTATIONS.values() if row.quantized)
_EVALUATION = "set `data.eval`, or `data.eval_fraction`"

# Key or table that people type -> what to write.
KEYS: dict[str, str] = {
    name: f"set `{key}`" if key else "remove it: recipec sets it" for name, key in DECIDED_ARGUMENTS.items()
} | {
    **dict.fromkeys(("lr", "learningrate", "peak_lr", "max_lr"), "set `train.learning_rate`"),
    **dict.fromkeys(("num_epochs", "n_epochs", "num_train_epochs"), "set `train.epochs`"),
    **dict.fromkeys(("steps", "num_steps", "train_steps"), "set `train.max_steps`"),
    "batch_size": "set `train.global_batch_size` (over all GPUs), or `train.micro_batch_size` (on each GPU)",
    **dict.fromkeys(("train_batch_size", "effective_batch_size"), "set `train.global_batch_size`"),
    **dict.fromkeys(("per_device_batch_size", "train_micro_batch_size_per_gpu", "mbs"), "set `train.micro_batch_size`"),
    **dict.fromkeys(("gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "accumulation"), _GLOBAL),
    **dict.fromkeys(("gradient_clipping", "max_norm", "clip_grad"), "set `train.max_grad_norm`"),
    **dict.fromkeys(("warmup_ratio", "warmup_steps", "warmup_num_steps"), "set `train.warmup`, a share of the steps"),
    **dict.fromkeys(("lr_scheduler", "scheduler"), "set `train.schedule`"),
    **dict.fromkeys(("bf16", "fp16", "dtype", "torch_dtype", "mixed_precision"), 'set `train.precision = "bf16"`'),
    **dict.fromkeys(("max_seq_length", "max_seq_len", "sequence_len", "seq_length", "model_max_length"), _LENGTH),
    "cutoff_len": _LENGTH,
    **dict.fromkeys(("save_steps", "save_interval"), "set `train.save_every`, a share of the steps"),
    **dict.fromkeys(("eval_steps", "eval_interval"), "set `train.eval_every`, a share of the steps"),
    "lmbda": "remove it: the student learns on the answers of `data.train`, as with `lmbda = 0`",
    **dict.fromkeys(("sample_packing", "pack"), "set `train.packing`"),
    **dict.fromkeys(("gpus", "num_gpus", "n_gpus", "ngpus", "gpu_count", "nproc_per_node", "num_processes"), _GPUS),
    **dict.fromkeys(("num_nodes", "nnodes", "num_machines"), _NODES),
    **dict.fromkeys(("gpu_type", "gpu_name", "accelerator"), "set `hardware.gpu`"),
    **dict.fromkeys(("device", "device_type"), 'set `hardware.gpu` to the name of a GPU, or to "cpu"'),
    **dict.fromkeys(("ram", "ram_gb", "ram_gib", "memory_gib", "cpu_memory"), "set `hardware.host_memory_gib`"),
    **dict.fromkeys(("vram", "vram_gb", "gpu_memory"), "set `hardware.vram_gib`"),
    **dict.fromkeys(("base_model", "model_name", "model_name_or_path", "model_id"), _MODEL),
    **dict.fromkeys(("dataset", "datasets", "dataset_name", "train_file", "train_data", "data_path"), _TRAIN_FILE),
    **dict.fromkeys(("eval_file", "validation_file", "eval_dataset", "val_set_size"), _EVALUATION),
    **dict.fromkeys(("dataset_type", "data_format"), "set `data.format`"),
    **dict.fromkeys(("adapter", "peft", "use_peft", "finetuning_type", "use_lora"), "set `train.adaptation`"),
    **dict.fromkeys(("load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type"), _QUANTIZED),
    **dict.fromkeys(("lora_r", "lora_rank", "r"), "set `train.lora.rank`"),
    "lora_alpha": "set `train.lora.alpha`",
    "lora_dropout": "set `train.lora.dropout`",
    **dict.fromkeys(("lora_target_modules", "lora_targets", "target_modules"), "set `train.lora.targets`"),
    **dict.fromkeys(("zero_stage", "zero_optimization", "ds_config", "deepspeed_config"), _STRATEGY),
    **dict.fromkeys(("flash_attention", "attn_implementation", "use_flash_attention_2"), _KERNEL),
    **dict.fromkeys(("wandb", "wandb_project", "tracking"), 'set `track.to = "wandb"` and `track.project`'),
    **dict.fromkeys(("val_size", "test_size"), "set `data.eval_fraction` and `data.test_fraction`"),
    **dict.fromkeys(("chat_template",), "set `data.template`"),
    **dict.fromkeys(("dpo_beta", "pref_beta", "rl_beta"), "set `alignment.beta`"),
    **dict.fromkeys(("rl", "trainer", "method", "stage"), "set `goal.task`, or `alignment.method`"),
    **dict.fromkeys(("training", "training_args", "trainer_args", "hyperparameters"), "write [train]"),
    **dict.fromkeys((*TABLES, "lora_config", "peft_config"), f"write [train.{TABLES[0]}]"),
    **dict.fromkeys(("licences", "license", "licence"), "write `licenses`, a list"),
    "output_dir": "remove it: `recipec build -o FOLDER` names the folder",
}


def _rows(rows: Mapping[str, Row]) -> dict[str, str]:
    return {word: f'"{name}"' for name, row in rows.items() for word in row.elsewhere}


def _tasks() -> dict[str, tuple[str, ...]]:
    """Every word of the methods' rows, and its tasks: a word may be two tasks' in two tools."""
    words = dict.fromkeys(word for row in METHODS.values() for word in row.elsewhere)
    return {word: tuple(dict.fromkeys(row.task for row in METHODS.values() if word in row.elsewhere)) for word in words}


_TASKS = _tasks()
# Value that people type -> what to write, by the key that it was typed for. The rows of the axes bring their own.
_VALUES: dict[str, dict[str, str]] = {
    "goal.task": {word: f'"{found[0]}"' for word, found in _TASKS.items() if len(found) == 1},
    "data.format": _rows(ROW_FORMATS),
    "train.strategy": _rows(STRATEGIES),
    "train.adaptation": _rows(ADAPTATIONS),
    "train.optimizer": {
        **dict.fromkeys(("adamw_torch", "adamw_torch_fused", "adam"), '"adamw"'),
        **dict.fromkeys(("adamw_8bit", "adamw_bnb_8bit"), '"adamw-8bit"'),
        "paged_adamw_32bit": '"paged-adamw"',
        "paged_adamw_8bit": '"paged-adamw-8bit"',
    },
    "train.precision": {"bfloat16": '"bf16"', "float16": '"fp16"', "float32": '"fp32"'},
    "train.schedule": dict.fromkeys(("wsd", "warmup_stable_decay"), '"warmup-stable-decay"'),
    "train.attention": dict.fromkeys(("flash", "flash-attention", "fa2", "flash_attn"), '"flash_attention_2"'),
}


def instead_of(key: str, value: str) -> tuple[str, ...]:
    """What to write for a value of another tool, one line for each of its meanings."""
    meanings = _TASKS.get(value, ()) if key == "goal.task" else ()
    if len(meanings) > 1:
        return tuple(f'set `{key} = "{task}"`: {tasks()[task]}' for task in meanings)
    instead = _VALUES.get(key, {}).get(value)
    return (f"set `{key} = {instead}`",) if instead else ()
