"""Trainer keywords and variables that recipec sets itself, and the recipe key that decides each."""

from __future__ import annotations

# Keyword of the trainer's configuration -> the recipe key to use instead; empty where the recipe has none.
DECIDED_ARGUMENTS: dict[str, str] = {
    "learning_rate": "train.learning_rate",
    "num_train_epochs": "train.epochs",
    "max_steps": "train.max_steps",
    "per_device_train_batch_size": "train.micro_batch_size",
    "per_device_eval_batch_size": "",
    "gradient_accumulation_steps": "train.global_batch_size",
    "lr_scheduler_type": "train.schedule",
    "warmup_steps": "train.warmup",
    "weight_decay": "train.weight_decay",
    "max_grad_norm": "train.max_grad_norm",
    "optim": "train.optimizer",
    "bf16": "train.precision",
    "fp16": "train.precision",
    "tf32": "train.precision",
    "use_cpu": "hardware.gpu",
    "activation_checkpointing": "train.activation_checkpointing",
    "gradient_checkpointing": "train.activation_checkpointing",
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
    "logging_steps": "",
    "logging_nan_inf_filter": "",
    "report_to": "track.to",
    "run_name": "track.run",
    "project": "track.project",
    "dataloader_num_workers": "",
    "dataloader_pin_memory": "",
    "dataloader_prefetch_factor": "",
    "dataloader_persistent_workers": "",
    "train_sampling_strategy": "",
    "assistant_only_loss": "",
    "completion_only_loss": "",
    "remove_unused_columns": "",
    "beta": "alignment.beta",
    "loss_type": "alignment.loss",
    "torch_compile": "train.compile",
    "model_init_kwargs": "",
    "deepspeed": "train.strategy",
    "fsdp": "train.strategy",
    "fsdp_config": "train.strategy",
    "ddp_find_unused_parameters": "",
}

# Variables that the launcher sets for each process: a fixed value would make the ranks collide.
LAUNCHER_VARIABLES = frozenset(
    (
        *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
        *("MASTER_ADDR", "MASTER_PORT", "NPROC_PER_NODE", "NNODES", "DATA_ROOT"),
    )
)
LAUNCHER_PREFIXES = ("ACCELERATE_", "FSDP_", "TORCHELASTIC_", "DEEPSPEED_")
