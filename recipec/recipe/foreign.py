"""Words of TRL, transformers, DeepSpeed, axolotl, LLaMA-Factory and others, and what a recipe says instead.

What names a method, strategy, adaptation, row format or hyperparameter of a method elsewhere is in the rows of
recipec.axes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from recipec.axes import METHODS, Own
from recipec.axes.hyperparameters import TOOLS
from recipec.axes.method import ENVIRONMENT, PRECOMPUTE, REWARDS, TOOL_FUNCTIONS
from recipec.recipe.foreign_words import WORDS
from recipec.recipe.kept_arguments import BROUGHT_ARGUMENTS, DECIDED_ARGUMENTS, UNFIT_ARGUMENTS
from recipec.rules.unbuilt import unbuilt_named


class Names(Struct, frozen=True):
    """What other tools call a key of the recipe, and what people type for it; several names are parted by spaces."""

    key: str  # of the recipe: "train.lora.rank"
    trl: str = ""  # TRL, transformers, accelerate and DeepSpeed, beside the arguments in DECIDED_ARGUMENTS
    axolotl: str = ""
    llama_factory: str = ""
    typed: str = ""
    note: str = ""  # behind "set KEY": what is different here

    @property
    def words(self) -> list[str]:
        """All of these names."""
        return f"{self.trl} {self.axolotl} {self.llama_factory} {self.typed}".split()

    @property
    def help(self) -> str:
        """What to write instead."""
        return f"set `{self.key}`{self.note}"


def _own() -> Iterator[tuple[str, Own]]:
    """Every hyperparameter of a method, with the name of the method."""
    for method in METHODS.values():
        yield from ((method.name, own) for own in method.keys)


def _of_rows() -> Iterator[Names]:
    """The keys of the methods' own hyperparameters, each with the names that all of its methods have for it."""
    found: dict[str, dict[str, list[str]]] = {}
    methods: dict[str, list[str]] = {}
    for name, own in _own():
        tools = found.setdefault(own.key, {tool: [] for tool in TOOLS})
        methods.setdefault(own.key, []).append(name)
        for tool, names in own.elsewhere.items():
            tools[tool] += names
    named = Counter(name for tools in found.values() for name in {name for names in tools.values() for name in names})
    for key, tools in found.items():
        shared = any(named[name] > 1 for names in tools.values() for name in names)
        words = {tool: " ".join(dict.fromkeys(names)) for tool, names in tools.items()}
        yield Names(f"alignment.{key}", **words, note=f" ({', '.join(methods[key])})" if shared else "")


# Read in the sources of axolotl (067b021, July 2026) and LLaMA-Factory (ff6d4d1, August 2026) and in TRL 1.16.
NAMES = (
    Names("goal.task", llama_factory="stage", typed="trainer method", note=", or `alignment.method`"),
    Names(
        "model.name",
        "model_name_or_path",
        "base_model",
        "model_name_or_path",
        "model_name model_id model.id model.path model.hub model.repo",
    ),
    Names("model.revision", "model_revision", "", "model_revision"),
    Names(
        "model.init_from",
        "",
        "lora_model_dir",
        "adapter_name_or_path",
        "init_from_adapter resume_lora_training create_new_adapter adapter_path",
        ", which names the folder of a LoRA adapter",
    ),
    Names(
        "model.new_tokens",
        "trainable_token_indices resize_token_embeddings",
        "tokens added_tokens_overrides resize_token_embeddings_to_32x",
        "add_tokens add_special_tokens new_special_tokens resize_vocab",
        "added_tokens special_tokens extend_vocabulary vocabulary_extension",
        ", a list of texts or a file; decoding keeps them all",
    ),
    Names("model.trust_remote_code", "trust_remote_code", "trust_remote_code", "trust_remote_code"),
    Names(
        "data.train",
        "dataset_name",
        "datasets",
        "dataset dataset_dir dataset_info",
        "train_file train_data data_path data_files parquet json jsonl jsonlines csv txt local_dataset data.path "
        "data.paths data.file data.files data.source data.sources data.name data.id data.hub",
        ", the files of the rows or a data set of the Hub",
    ),
    Names("data.train.hub", typed="hf_dataset dataset_id hub_dataset load_dataset huggingface"),
    Names("data.train.split", "dataset_train_split"),
    Names("data.train.subset", "dataset_config", typed="config_name"),
    Names(
        "data.train.weight",
        "",
        "",
        "interleave_probs",
        "mix_strategy dataset_weights sampling_weight mixing",
        ": how often the rows of a source are used, not the probability of a source",
    ),
    Names(
        "data.carry",
        typed="function_calling tool_calling tool_use",
        note=', only where the first rows have no tools, since those of first rows are read: `carry = ["tools"]`',
    ),
    Names(
        "data.columns",
        "",
        "field_messages message_property_mappings",
        "",
        "column_mapping columns_mapping fields text_column text_field",
    ),
    Names(
        "data.examples",
        typed="num_examples n_examples examples_count num_rows n_samples num_train_samples dataset_size train_size",
        note=", the rows of all files, where they are not at hand",
    ),
    Names(
        "data.tokens_per_example",
        typed="data.tokens num_tokens total_tokens num_train_tokens train_tokens training_tokens token_budget "
        "tokens_per_sample tokens_per_row avg_tokens mean_tokens avg_length average_length mean_length",
        note=" and `data.examples`: the rows have as many tokens as the one times the other",
    ),
    Names("data.eval", "", "test_datasets", "eval_dataset", "eval_file validation_file validation eval_split"),
    Names("data.eval_fraction", "", "val_set_size", "val_size", "validation_split split_dataset"),
    Names("data.test_fraction", typed="test_size"),
    Names("data.format", "", "type", "formatting", "dataset_type data_format"),
    Names(
        "data.template",
        "",
        "chat_template chat_template_jinja chatml_template",
        "template",
        "jinja jinja_template prompt_template conversation",
    ),
    Names("data.loss_on", "", "", "mask_history", "train_on_last_turn last_turn_only", note=' to "last-answer"'),
    Names("data.reasoning", "", "", "enable_thinking", "thinking think cot chain_of_thought"),
    Names("data.system", "", "default_system_message", "default_system", "system_prompt system_message"),
    Names(
        "data.max_length",
        "",
        "sequence_len",
        "cutoff_len",
        "model_max_length max_seq_length max_seq_len seq_len seq_length block_size",
    ),
    Names("data.overflow", "truncation_mode", "excess_length_strategy", typed="truncation truncate"),
    Names(
        "hardware.gpu",
        typed="gpu_type gpu_name accelerator device device_type cpu cuda nvidia amd rocm",
        note=' to the name of a GPU, or to "cpu"',
    ),
    Names(
        "hardware.gpus_per_node",
        "num_processes nproc_per_node",
        typed="gpus num_gpus n_gpus ngpus gpu_count num_gpus_per_node gpus_per_server gpus_per_machine",
    ),
    Names("hardware.nodes", "num_machines nnodes", typed="num_nodes n_nodes node_count machines servers"),
    Names("hardware.vram_gib", typed="vram vram_gb gpu_memory gpu_memory_gib gpu_memory_gb gpu_vram gpu_ram"),
    Names("hardware.gpu_link", typed="interconnect nvswitch"),
    Names("hardware.network_gbps", typed="network bandwidth infiniband ib roce rdma efa nccl"),
    Names("hardware.cpu_cores", typed="cores cpus num_cpus"),
    Names("hardware.host_memory_gib", typed="ram ram_gb ram_gib memory_gib cpu_memory host_memory"),
    Names("launch.with", typed="launcher accelerate torchrun", note=": its script starts `accelerate launch`"),
    Names("launch.env", typed="env environment hf_home cuda_visible_devices nccl_debug omp_num_threads"),
    Names("alignment.method", "", "rl", ""),
    *_of_rows(),
    Names(f"alignment.{PRECOMPUTE}", "", "precompute_ref_log_probs", ""),
    Names(
        f"alignment.{REWARDS}",
        "reward_funcs",
        typed="reward_functions reward_function reward_fn reward_func reward_model reward_models reward_model_path "
        "rm_path",
        note=', for example to "rewards.py:correct" or { model = "FOLDER" }',
    ),
    Names(
        f"alignment.{ENVIRONMENT}",
        "environment_factory",
        typed="environment_class env_class environments vf_env_id verifiers gym_env multi_turn_rl multi_turn_scheduler",
        note=', for example to "shop.py:Shop": a class with `reset`, tools and `get_reward`',
    ),
    Names(
        f"alignment.{TOOL_FUNCTIONS}",
        typed="tool_functions tool_config_path tool_list function_tools",
        note=', for example to ["tools.py:search"]',
    ),
    Names("alignment.teacher", "teacher_model_name_or_path", typed="teacher_model"),
    Names("train.adaptation", "use_peft", "adapter", "finetuning_type", "peft use_lora peft_type"),
    Names("train.learning_rate", "", "learning_rate", "learning_rate", "lr learningrate peak_lr max_lr"),
    Names("train.epochs", "", "num_epochs", "num_train_epochs", "n_epochs"),
    Names("train.max_steps", "", "max_steps", "max_steps", "steps num_steps train_steps max_steps_per_epoch"),
    Names(
        "train.global_batch_size",
        "gradient_accumulation_steps train_batch_size",
        "gradient_accumulation_steps",
        "gradient_accumulation_steps",
        "gradient_accumulation grad_accum accumulation effective_batch_size",
        ": recipec decides how it is accumulated",
    ),
    Names(
        "train.micro_batch_size",
        "train_micro_batch_size_per_gpu",
        "micro_batch_size",
        "per_device_train_batch_size",
        "per_device_batch_size mbs",
    ),
    Names(
        "train.warmup",
        "warmup_ratio warmup_num_steps",
        "warmup_ratio warmup_steps",
        "warmup_ratio warmup_steps",
        note=", a share of the steps",
    ),
    Names("train.schedule", "", "lr_scheduler", "lr_scheduler_type", "scheduler lr_decay"),
    Names("train.weight_decay", "", "weight_decay", "weight_decay"),
    Names("train.max_grad_norm", "gradient_clipping", "max_grad_norm", "max_grad_norm", "max_norm clip_grad"),
    Names("train.optimizer", "", "optimizer", "optim"),
    Names(
        "train.precision", "mixed_precision", "bf16 fp16", "bf16 fp16", "dtype torch_dtype amp", ', for example "bf16"'
    ),
    Names("train.curriculum", "curriculum_sampling", "curriculum_sampling", "", "curriculum_learning"),
    Names("train.ewc", typed="elastic_weight_consolidation fisher"),
    Names("train.ewc.strength", typed="ewc_lambda ewc_weight"),
    Names("train.experts", typed="moe mixture_of_experts deepspeed_moe expert_capacity"),
    Names("train.experts.capacity_factor", typed="moe_capacity_factor moe_train_capacity_factor"),
    Names("train.experts.eval_capacity_factor", typed="moe_eval_capacity_factor"),
    Names("train.experts.min_capacity", typed="moe_min_capacity"),
    Names("train.experts.balance_loss", typed="moe_loss_coeff moe_aux_loss_coeff aux_loss_coef load_balance_loss"),
    Names("train.expert_parallel", typed="ep_size moe_expert_parallel_size ep expert_parallel_size"),
    Names("data.general", typed="old_data general_data replay_data"),
    Names("data.replay", typed="replay_fraction replay_ratio replay_share"),
    Names("train.fp8", typed="float8 fp8_recipe fp8_linear"),
    Names("train.packing", "", "sample_packing", "packing neat_packing", "pack multipack"),
    Names("train.activation_checkpointing", "", "gradient_checkpointing", "", "recompute use_gradient_checkpointing"),
    Names("train.recompute_every", typed="selective_checkpointing recompute_num_layers"),
    Names(
        "train.attention",
        "attn_implementation",
        "attn_implementation flash_attention",
        "flash_attn",
        "use_flash_attention_2",
    ),
    Names("train.loop", typed="custom_loop training_loop own_loop no_trainer trainer_class deepspeed_loop"),
    Names("train.compile", "", "torch_compile", "torch_compile"),
    Names(
        "train.strategy",
        "zero_optimization",
        "deepspeed fsdp fsdp_config",
        "deepspeed",
        "zero_stage ds_config deepspeed_config distributed parallelism fsdp1",
        "; recipec writes the configuration",
    ),
    Names(
        "train.offload",
        typed="cpu_offload offload_optimizer offload_param",
        note=' to "cpu", or to "optimizer" with ZeRO-3',
    ),
    Names("train.tensor_parallel", "tp_size", "tensor_parallel_size"),
    Names("train.context_parallel", "cp_size", "context_parallel_size", "hyper_parallel_cp_size"),
    Names(
        "train.eval_every",
        "",
        "eval_steps evals_per_epoch",
        "eval_steps",
        "eval_interval evaluation_strategy",
        ", a share of the steps",
    ),
    Names(
        "train.save_every", "", "save_steps saves_per_epoch", "save_steps", "save_interval", ", a share of the steps"
    ),
    Names("train.early_stopping_patience", "", "early_stopping_patience", "early_stopping_steps", "early_stopping"),
    Names("train.logging_steps", "", "logging_steps", "logging_steps", "log_every log_interval"),
    Names("train.keep_checkpoints", "", "save_total_limit", "save_total_limit", "checkpoint checkpoints checkpointer"),
    Names("train.lora.rank", "lora_r", "lora_r", "lora_rank", "r"),
    Names("train.lora.alpha", "lora_alpha", "lora_alpha", "lora_alpha"),
    Names("train.lora.dropout", "lora_dropout", "lora_dropout", "lora_dropout"),
    Names(
        "train.lora.targets",
        "lora_target_modules",
        "lora_target_modules lora_target_linear",
        "lora_target",
        "lora_targets target_modules lora_attn_modules apply_lora_to_mlp",
    ),
    Names(
        "train.lora.variant",
        "use_dora use_rslora init_lora_weights",
        "peft_use_dora peft_use_rslora peft_init_lora_weights loraplus_lr_ratio",
        "use_dora use_rslora pissa_init loraplus_lr_ratio",
        "lora_variant",
    ),
    Names(
        "train.prompt.virtual_tokens",
        "num_virtual_tokens",
        "peft_num_virtual_tokens",
        typed="prompt_tokens prompt_length prompt_tuning_config",
        note=", or `train.prefix.virtual_tokens` for a prefix",
    ),
    Names(
        "train.prompt.encoder_hidden_size",
        "encoder_hidden_size",
        typed="prompt_encoder_config encoder_dim encoder_reparameterization_type",
    ),
    Names("train.prefix.virtual_tokens", typed="prefix_tokens prefix_length pre_seq_len prefix_tuning_config"),
    Names("train.prefix.encoder_hidden_size", "prefix_projection", typed="prefix_hidden_size"),
    Names(
        "train.bottleneck.reduction_factor",
        "bottleneck_size",
        typed="reduction adapter_size adapter_reduction_factor bottleneck_dim",
        note=": the width of the model over the width of an adapter",
    ),
    Names("train.bottleneck.after", typed="mh_adapter output_adapter adapter_location"),
    Names("train.lora.expert_rank", typed="moe experts mixture mixture_of_experts"),
    Names("evaluate.max_new_tokens", "", "generation_max_new_tokens"),
    Names(
        "adapters",
        typed="tasks multitask multi_task multi_adapter multi_lora adapter_names",
        note=": one `[[adapters]]` table for each task",
    ),
    Names(
        "fusion",
        typed="adapter_fusion adapterfusion adapter-fusion",
        note=": an empty `[fusion]` table beside `[[adapters]]`",
    ),
    Names("track.to", "", "use_wandb use_mlflow use_tensorboard", "report_to", "tracking tracker logger metric_logger"),
    Names("track.project", "", "wandb_project mlflow_experiment_name", "", "experiment"),
    Names("track.run", "", "wandb_name mlflow_run_name", "run_name"),
    Names(
        "budget.price_per_gpu_hour",
        typed="price gpu_price usd_per_hour usd_per_gpu_hour price_per_hour cost_per_hour cost_per_gpu_hour gpu_cost "
        "gpu_hour_price hourly_rate hourly_price hourly_cost spot_price cloud spot region",
        note=", in US dollars for one GPU",
    ),
    Names("budget.max_cost_usd", typed="cost usd max_cost max_usd max_budget budget_usd cost_limit total_cost"),
    Names("budget.max_hours", typed="time_limit max_time max_runtime time_budget walltime wall_time deadline"),
    Names("recipe.extends", typed="preset presets inherits include"),
    Names("recipe.seed", "", "seed", "seed", "shuffle_seed random_seed random_state seed_everything"),
)


def names_of(key: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tools that have the key, each with its names for it."""
    row = next((row for row in NAMES if row.key == key), Names(key))
    decided = [name for name, home in DECIDED_ARGUMENTS.items() if home == key]
    tools = {"TRL": " ".join([*decided, row.trl]), "axolotl": row.axolotl, "LLaMA-Factory": row.llama_factory}
    yield from ((tool, tuple(dict.fromkeys(names.split()))) for tool, names in tools.items() if names.strip())


def _typed() -> dict[str, str]:
    """Every name of another tool, and what to write; a name of several keys is answered with all of them."""
    found: dict[str, list[str]] = {}
    for row in NAMES:
        for name in row.words:
            if row.help not in found.setdefault(name, []):
                found[name].append(row.help)
    return {name: ", or ".join(helps) for name, helps in found.items()}


# Key or table that people type -> what to write.
KEYS: dict[str, str] = {
    **{name: f"remove it: {why}" for name, why in UNFIT_ARGUMENTS.items() if not unbuilt_named(name)},
    **{name: f"set `{key}`" if key else "remove it: recipec sets it" for name, key in DECIDED_ARGUMENTS.items()},
    **{name: f"set `{key}`" for name, key in BROUGHT_ARGUMENTS.items() if name not in DECIDED_ARGUMENTS},
    **_typed(),
    **WORDS,
}


_KEY = re.compile(r"`((?:[\w-]+\.)+[\w-]+)")  # `train.lora.rank`, or the key of `model.name = "auto"`


def keys_in(help: str) -> tuple[str, ...]:
    """The keys of a recipe that a sentence of KEYS names."""
    return tuple(_KEY.findall(help))


def keys_named(word: str) -> tuple[str, ...]:
    """The keys of a recipe that another tool, or people, call by the word; none where it has no key of its own."""
    word = word.strip().strip("[]").lower()
    found = [row.key for row in NAMES if word in row.words]
    arguments = [home for names in (DECIDED_ARGUMENTS, BROUGHT_ARGUMENTS) if (home := names.get(word))]
    return tuple(dict.fromkeys([*arguments, *found]))


def not_built(word: str) -> tuple[str, ...]:
    """What to do instead, and where it says why, of a key or value that recipec does not build; none for others."""
    row = unbuilt_named(word)
    return (row.instead, f"read why it is not built: `recipec explain {row.id}`") if row else ()
