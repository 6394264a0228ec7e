"""What train.py trains with: filled in there, read by the files beside it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Values under the names that the Trainer of transformers has for them."""

    output_dir: str
    seed: int
    num_train_epochs: float
    max_steps: int
    per_device_train_batch_size: int
    gradient_accumulation_steps: int
    per_device_eval_batch_size: int
    learning_rate: float
    lr_scheduler_type: str
    warmup_steps: float
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    weight_decay: float
    max_grad_norm: float
    max_length: int
    eval_steps: float
    save_steps: float
    save_total_limit: int
    load_best_model_at_end: bool
    logging_steps: int
    report_to: str
    run_name: str
    dataloader_num_workers: int
    dataloader_pin_memory: bool
    dataset_num_proc: int
    ddp_timeout: int
    dataloader_prefetch_factor: int
