"""Trainer keywords and environment variables that a recipe cannot hand on, each with the key to use or the reason."""

from recipec.axes import METHODS
from recipec.axes.method import PRECOMPUTE

_OWN = [own for row in METHODS.values() for own in row.keys if own.argument]
# Keywords that the variant decides; of a method without variants they are its trainer's own, or none.
OF_VARIANTS = (
    *("importance_sampling_level", "scale_rewards", "epsilon", "epsilon_high", "sapo_temperature_pos"),
    *("sapo_temperature_neg", "mask_truncated_completions", "cast_lm_head_to_fp32"),
)
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
    "logging_strategy": "train.logging_steps",
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
    **dict.fromkeys(OF_VARIANTS, "alignment.variant"),
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
# A value without effect (trainer_arguments.py) is passed on all the same.
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
    "save_on_each_node": "every node would write the same checkpoint into the folder that the nodes share "
    "(transformers 5.23 training_args.py:2057), and on one node it changes nothing",
    "restore_callback_states_from_checkpoint": "no callback of a bundle leaves its state in a checkpoint",
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), "a bundle has no such switch"),
    **dict.fromkeys(
        ("bf16_full_eval", "fp16_full_eval"),
        "evaluations run within the training, in its precision (transformers 5.23 trainer.py:2940)",
    ),
    **dict.fromkeys(
        (
            *("prediction_loss_only", "include_for_metrics", "batch_eval_metrics", "eval_do_concat_batches"),
            *("eval_accumulation_steps", "eval_use_gather_object"),
        ),
        "evaluations of a training keep no predictions, only losses (transformers 5.23 trainer.py:2868)",
    ),
    "dataloader_in_order": "a resumed run would skip other batches than the training has had",
    "length_column_name": "prepared rows have their lengths in the column `length`",
    "dataset_kwargs": "TRL 1.16 reads `skip_prepare_dataset` alone, which leaves the rows without tokens",
    "use_cache": "training needs no cache of keys and values, and the plan has no memory for one",
    "ddp_backend": "the launch script and the plan are for NCCL on GPUs and Gloo on CPUs",
    **dict.fromkeys(
        ("trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"),
        "a bundle does not write to Trackio: `track.to` names what it writes to",
    ),
    "enable_jit_checkpoint": "a run that a signal ends would count as finished, and its last checkpoint as incomplete",
    "truncation_mode": "prepare_data.py, the plan and evaluate.py cut the end off",
    **dict.fromkeys(
        (
            *("use_transformers_continuous_batching", "use_transformers_paged"),
            "transformers_continuous_batching_config",
        ),
        "the plan is for answers that transformers' `generate` or vLLM writes: see `alignment.generation.engine`",
    ),
    **dict.fromkeys(
        ("use_vllm", "vllm_gpu_memory_utilization"),
        '`alignment.generation.engine = "vllm"` sets it, and the plan counts the memory and time of that',
    ),
    "vllm_mode": '`alignment.generation.engine` says it: "vllm" on the GPUs that train, "vllm-server" on others',
    "vllm_enable_sleep_mode": "the plan has the memory of vLLM back while the model learns",
    "vllm_max_model_length": "it is `data.max_length` and `alignment.generation.max_new_tokens` together",
    "vllm_model_impl": "the plan is for vLLM's own code of the model",
    "vllm_structured_outputs_regex": "answers would be drawn from other probabilities than are learned",
    **dict.fromkeys(
        (
            *("vllm_importance_sampling_correction", "vllm_importance_sampling_mode", "vllm_importance_sampling_cap"),
            *("vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min"),
        ),
        "train.py says it where vLLM writes the answers: edit it there, and a later build keeps the edit",
    ),
    **dict.fromkeys(
        (
            *("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout"),
            "vllm_group_port",
        ),
        'serve_answers.py starts the server of `alignment.generation.engine = "vllm-server"` and tells train.py of it',
    ),
    **dict.fromkeys(
        ("top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs"),
        "answers would be drawn from other probabilities than are learned",
    ),
    "cache_implementation": "the plan is for a cache of keys and values that grows with the answer; transformers "
    "compiles the model for a static one (5.23 generation/utils.py:2437)",
    "log_completions_hub_repo": "it uploads every answer to the Hub during the run, which needs the Hub before step 1",
    "log_multimodal": "models are trained on text",
    "discopop_tau": "no value of `alignment.loss` has a loss that reads it",
    **dict.fromkeys(
        ("vespo_k_pos", "vespo_k_neg", "vespo_lambda_pos", "vespo_lambda_neg"),
        "no value of `alignment.variant` has a loss that reads it",
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
