"""Decisions without a rule that training does not depend on, or only through others; any other one counts."""

from __future__ import annotations

from recipec.axes.models import NAMED_MODELS

_ROWS = (  # a bundle has the digest of the rows that it prepared
    *("answer_share", "answers_apart", "answers_per_row", "carried", "data_format", "data_rows", "data_sections"),
    *(
        name
        for part in ("eval", "test", "general")
        for name in (f"{part}_rows", f"{part}_data_rows", f"has_{part}_file")
    ),
    *("examples", "incomplete", "label_meaning", "opening_answers"),
    *("passed_over", "preference_format", "rows_too_long", "rows_unanswered", "source_rows", "stated_max_length"),
    *("tokens_p99", "tokens_per_example", "true_share", "unlearned_answers", "without_thoughts", "schema_tokens"),
    *("general_tokens", "kept_answers", "kept_source_answers", "replay_rows"),
)
_MACHINES = (
    *(
        "cores_per_gpu",
        "gpu",
        "gpu_bf16",
        "gpu_cuda",
        "gpu_fp8",
        "gpu_int8",
        "gpu_is_cpu",
        "gpu_price",
        "gpu_varlen",
        "gpus",
    ),
    *("gpus_per_node", "host_cores", "host_memory_gib", "nodes", "measured", "total_vram_gb", "vram_gib"),
)
_PREDICTED = (
    *("alternatives", "checkpoint_seconds", "eval_batch_size", "evaluation_seconds", "generator_share", "passes"),
    *("prediction", "total_steps", "training_seconds", "training_tokens"),
)
OF_LAYOUTS = (  # which are counted as a whole
    *("activation_offload", "context_parallel", "expert_parallel", "recompute_every", "tensor_parallel"),
)
_OF_MODELS = (  # which are counted by name and revision
    *("asked_model", "has_sdpa", "has_template", "has_turn_end", "like", "max_position", "moe", "params"),
    *("active_params", "experts_per_token", "reward_likes", "shared_mlp", "template_has_mask", "template_marks"),
    *(f"{role}_{what}" for role in NAMED_MODELS for what in ("license", "like", "params")),
    *("trainable_params", "combined", "head_splits"),
)
_WISHES = (  # from which rules decide
    *("first_time", "has_reward", "kl_control", "new_domain", "priority", "task"),
)
_TOLD = ("track_project", "track_run")

UNTRAINED = frozenset((*_ROWS, *_MACHINES, *_PREDICTED, *OF_LAYOUTS, *_OF_MODELS, *_WISHES, *_TOLD))
