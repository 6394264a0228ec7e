"""The keywords that the trainers' configuration classes take: transformers 5.23 and TRL 1.16, read on 2026-11-23."""

from __future__ import annotations

import json

_TRAINING_ARGUMENTS = """
accelerator_config activation_checkpointing activation_checkpointing_kwargs adam_beta1 adam_beta2 adam_epsilon
auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16 bf16_full_eval data_seed
dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context dataloader_num_workers
dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers
ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout debug deepspeed disable_tqdm do_eval
do_predict do_train enable_jit_checkpoint eval_accumulation_steps eval_delay eval_do_concat_batches eval_on_start
eval_steps eval_strategy eval_use_gather_object fp16 fp16_full_eval fsdp fsdp_config full_determinism
gradient_accumulation_steps gradient_checkpointing gradient_checkpointing_kwargs greater_is_better hub_always_push
hub_model_id hub_private_repo hub_revision hub_strategy hub_token ignore_data_skip include_for_metrics
include_num_input_tokens_seen label_names label_smoothing_factor learning_rate length_column_name liger_kernel_config
load_best_model_at_end local_rank log_level log_level_replica log_on_each_node logging_first_step
logging_nan_inf_filter logging_steps logging_strategy lr_scheduler_kwargs lr_scheduler_type max_grad_norm max_steps
metric_for_best_model neftune_noise_alpha num_train_epochs optim optim_args optim_target_modules output_dir
parallelism_config per_device_eval_batch_size per_device_train_batch_size prediction_loss_only project push_to_hub
remove_unused_columns report_to restore_callback_states_from_checkpoint resume_from_checkpoint run_name
save_on_each_node save_only_model save_steps save_strategy save_total_limit seed skip_memory_metrics tf32
torch_compile torch_compile_backend torch_compile_mode torch_empty_cache_steps trackio_bucket_id trackio_space_id
trackio_static_space_id train_sampling_strategy use_cache use_cpu use_liger_kernel warmup_steps weight_decay
"""
_MORE = {
    "SFTConfig": """
    activation_offloading assistant_only_loss chat_template_path completion_only_loss dataset_kwargs dataset_num_proc
    dataset_text_field eos_token eval_packing loss_type max_length model_init_kwargs packing packing_strategy
    pad_to_multiple_of pad_token padding_free router_aux_loss_coef shuffle_dataset truncation_mode trust_remote_code
    """,
    "DPOConfig": """
    activation_offloading beta dataset_num_proc disable_dropout discopop_tau f_alpha_divergence_coef f_divergence_type
    label_smoothing ld_alpha loss_type loss_weights max_length model_init_kwargs pad_to_multiple_of pad_token
    padding_free precompute_ref_batch_size precompute_ref_log_probs ref_model_mixup_alpha ref_model_sync_steps
    router_aux_loss_coef sync_ref_model truncation_mode trust_remote_code use_weighting
    """,
    "RewardConfig": """
    activation_offloading center_rewards_coefficient chat_template_path dataset_num_proc disable_dropout eos_token
    max_length model_init_kwargs pad_to_multiple_of pad_token trust_remote_code
    """,
    "KTOConfig": """
    activation_offloading beta dataset_num_proc desirable_weight disable_dropout loss_type max_length
    model_init_kwargs pad_to_multiple_of precompute_ref_batch_size precompute_ref_log_probs ref_model_mixup_alpha
    ref_model_sync_steps router_aux_loss_coef sync_ref_model trust_remote_code undesirable_weight
    """,
    "PPOConfig": """
    answer_passes beta clip_range gae_lambda max_completion_length minibatches missing_eos_penalty model_init_kwargs
    num_generations reward_weights target_kl temperature value_clip_range value_weight
    """,
    "DistillationConfig": """
    beta cache_implementation chat_template_kwargs disable_dropout ds3_gather_for_generation generation_kwargs
    log_completions log_unique_prompts max_completion_length max_tool_calling_iterations min_p model_init_kwargs
    num_completions_to_print pad_to_multiple_of repetition_penalty shuffle_dataset teacher_model_init_kwargs
    teacher_model_name_or_path teacher_model_revision temperature top_k top_p trust_remote_code use_vllm
    vllm_enable_sleep_mode vllm_gpu_memory_utilization vllm_group_port vllm_max_model_length vllm_mode
    vllm_model_impl vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout
    vllm_structured_outputs_regex vllm_tensor_parallel_size
    """,
    "RLOOConfig": """
    beta cache_implementation chat_template_kwargs disable_dropout ds3_gather_for_generation epsilon
    epsilon_high generation_batch_size generation_kwargs log_completions log_multimodal log_unique_prompts
    mask_truncated_completions max_completion_length min_p model_init_kwargs normalize_advantages
    num_completions_to_print num_generations num_generations_eval num_iterations pad_to_multiple_of
    ref_model_mixup_alpha ref_model_sync_steps repetition_penalty reward_clip_range reward_weights
    router_aux_loss_coef shuffle_dataset steps_per_generation sync_ref_model temperature top_k top_p
    transformers_continuous_batching_config trust_remote_code use_transformers_continuous_batching
    use_transformers_paged use_vllm vllm_enable_sleep_mode vllm_gpu_memory_utilization vllm_group_port
    vllm_max_model_length vllm_mode vllm_model_impl vllm_server_base_url vllm_server_host vllm_server_port
    vllm_server_timeout vllm_structured_outputs_regex vllm_tensor_parallel_size
    """,
    "GRPOConfig": """
    beta cache_implementation cast_lm_head_to_fp32 chat_template_kwargs delta disable_dropout
    ds3_gather_for_generation entropy_coef entropy_coef_delta entropy_coef_max entropy_coef_min entropy_target
    epsilon epsilon_high generation_batch_size generation_kwargs importance_sampling_level
    log_completions log_completions_hub_repo log_multimodal log_unique_prompts loss_type mask_truncated_completions
    max_completion_length max_tool_calling_iterations min_p model_init_kwargs multi_objective_aggregation
    num_completions_to_print num_generations num_generations_eval num_iterations off_policy_mask_threshold
    pad_to_multiple_of ref_model_mixup_alpha ref_model_sync_steps remove_unused_columns repetition_penalty
    reward_weights router_aux_loss_coef sapo_temperature_neg sapo_temperature_pos scale_rewards shuffle_dataset
    steps_per_generation sync_ref_model temperature top_entropy_quantile top_k top_p
    transformers_continuous_batching_config trust_remote_code use_adaptive_entropy use_bias_correction_kl
    use_transformers_continuous_batching use_transformers_paged use_vllm vespo_k_neg vespo_k_pos vespo_lambda_neg
    vespo_lambda_pos vllm_enable_sleep_mode vllm_gpu_memory_utilization vllm_group_port vllm_importance_sampling_cap
    vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min vllm_importance_sampling_correction
    vllm_importance_sampling_mode vllm_max_model_length vllm_mode vllm_model_impl vllm_server_base_url
    vllm_server_host vllm_server_port vllm_server_timeout vllm_structured_outputs_regex vllm_tensor_parallel_size
    """,
}

# What a value must be -> its types in TOML, and the keywords with such values that a recipe may give. What is not
# here takes text. The annotations of the same classes, read on 2026-11-27.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "true or false": (
        (bool,),
        """
        average_tokens_across_devices ddp_broadcast_buffers ddp_static_graph disable_tqdm full_determinism
        log_completions log_on_each_node log_unique_prompts logging_first_step mask_truncated_completions
        normalize_advantages skip_memory_metrics use_adaptive_entropy use_weighting
        """,
    ),
    "a whole number": (
        (int,),
        """
        ddp_bucket_cap_mb ddp_timeout max_tool_calling_iterations
        num_completions_to_print precompute_ref_batch_size torch_empty_cache_steps
        """,
    ),
    "a number": (
        (int, float),
        """
        delta entropy_coef entropy_coef_delta entropy_coef_max entropy_coef_min entropy_target epsilon epsilon_high
        eval_delay f_alpha_divergence_coef label_smoothing_factor ld_alpha neftune_noise_alpha
        off_policy_mask_threshold top_entropy_quantile
        """,
    ),
    "a list": ((list,), "loss_weights reward_clip_range"),
    "a list or text": ((list, str), "debug"),
    "true, false or text": ((bool, str), "include_num_input_tokens_seen"),
    "a whole number or text": ((int, str), "pad_to_multiple_of"),
}

# Values with which a keyword changes nothing -> keywords that may have them, where other values are refused or make
# another loss (verify/losses.py): the defaults of the same classes, read on 2026-11-30; no noise for none
# (integrations/neftune.py), and false for "no" (training_args.py:1554). What a bundle sets itself in some plans is not
# here: train.py would have it twice.
_WITHOUT_EFFECT: list[tuple[object, str]] = [
    (
        False,
        """
        auto_find_batch_size batch_eval_metrics bf16_full_eval dataloader_drop_last do_eval do_predict do_train
        enable_jit_checkpoint eval_use_gather_object fp16_full_eval hub_always_push ignore_data_skip
        include_num_input_tokens_seen padding_free prediction_loss_only push_to_hub
        restore_callback_states_from_checkpoint save_on_each_node save_only_model sync_ref_model use_cache
        use_liger_kernel use_transformers_continuous_batching use_transformers_paged use_weighting
        """,
    ),
    (True, "dataloader_in_order ds3_gather_for_generation eval_do_concat_batches log_multimodal"),
    ([], "include_for_metrics"),
    ("no", "include_num_input_tokens_seen"),
    ("length", "length_column_name"),
    ("keep_start", "truncation_mode"),
    ("vllm", "vllm_model_impl"),
    ("every_save", "hub_strategy"),
    ("reverse_kl", "f_divergence_type"),
    (-1, "local_rank"),
    (0.0, "label_smoothing_factor neftune_noise_alpha"),
    (0.05, "discopop_tau"),
    (0.5, "f_alpha_divergence_coef"),
    (0.6, "ref_model_mixup_alpha"),
    (2.0, "vespo_k_pos vespo_lambda_neg"),
    (3.0, "vespo_k_neg vespo_lambda_pos"),
    (512, "ref_model_sync_steps"),
]

# What methods refuse, though their trainers take it; the rows that refuse are in planner/advice/arguments.py.
_TAKEN_BY_SOME = {
    "neftune_noise_alpha": "; methods whose model writes answers, or is compared with a reference, refuse it",
    "label_smoothing_factor": "; supervised fine-tuning and pretraining alone take it",
}


def kind_of(keyword: str) -> tuple[str, tuple[type, ...]]:
    """What the value of a keyword must be that a recipe may give: in words, and its types in TOML."""
    found = ((words, types) for words, (types, keywords) in _KINDS.items() if keyword in keywords.split())
    return next(found, ("text", (str,)))


def without_effect(keyword: str, value: object) -> bool:
    """Whether a run with the keyword is the run without it; 0 and 1 are not false and true."""
    values = values_without_effect(keyword)
    return any(value == none and isinstance(value, bool) == isinstance(none, bool) for none in values)


def values_without_effect(keyword: str) -> list[object]:
    """The values with which a run with the keyword is the run without it."""
    return [none for none, keywords in _WITHOUT_EFFECT if keyword in keywords.split()]


def configs_with(keyword: str) -> tuple[str, ...]:
    """The configuration classes that take the keyword."""
    return tuple(sorted(config for config in _MORE if keyword in arguments_of(config)))


def written_as_argument(keyword: str, value: object) -> str:
    """What to write for a keyword of the trainer that no key of a recipe is for; "" for other words."""
    if not (configs := configs_with(keyword)):
        return ""
    given = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float) else "VALUE"
    whose = "" if len(configs) == len(_MORE) else f" ({', '.join(configs)})"
    limit = _TAKEN_BY_SOME.get(keyword, "")
    return f"write `arguments = {{ {keyword} = {given} }}` under [train]: it is a keyword of the trainer{whose}{limit}"


def arguments_of(config: str) -> frozenset[str]:
    """The keywords of a configuration class; raises KeyError for one that no method uses."""
    return frozenset(f"{_TRAINING_ARGUMENTS} {_MORE[config]}".split())
