"""Words of other tools that have no key of their own in a recipe, and what to write for each."""

from __future__ import annotations

from recipec.axes import ADAPTATIONS, BASES, LORA_VARIANTS
from recipec.axes.adaptations import LORA
from recipec.axes.attention import ATTENTIONS
from recipec.axes.lora_variants import STANDARD
from recipec.recipe.clashes import TABLES

_QUANTIZED = {row.base: f"set `{row.asked_by}`" for row in ADAPTATIONS.values() if row.quantized}
_QUANTIZING = "quantization_bit quantization_config bnb bnb_config bitsandbytes"
_MASKING = "train_on_responses_only train_on_inputs train_on_input train_on_prompt mask_prompt mask_inputs "
_MASKING += "assistant_only_loss completion_only_loss response_template roles_to_train train_on_eos "
_MASKING += "datacollatorforcompletiononlylm"
_TOKENS = "eos_token_id bos_token add_bos_token add_eos_token"
_SORTING = "group_by_length length_grouped pad_to_max_length pad_to_sequence_len dynamic_padding"
_TOKENIZER = "tokenizer tokenizer_name tokenizer_name_or_path tokenizer_type tokenizer_class tokenizer_config"
_FLASH = "flash_attention flash_attn flash_attn_2 use_flash_attn use_flash_attention use_flash_attention_2"
_SDPA = "sdp_attention sdpa_attention eager_attention"
_NO_FLASH_PACKAGE = "remove it: the kernel of the flash-attn package is not supported (BAD-011). " + next(
    f'`train.attention` is "{row.name}" by itself: {row.means}' for row in ATTENTIONS.values() if not row.package
)
_TURNS = "message_field_role message_field_content message_field_training roles role_tag content_tag user_tag"
_TURNS += " assistant_tag"
_FOLDERS = "output_dir log_dir logging_dir checkpoint_dir checkpoints_dir checkpoint_folder"
_FOLDERS += " checkpoints_folder output_folder shared_folder shared_filesystem"
_PLACED = (
    "device_map fsdp_transformer_layer_cls_to_wrap max_lora_rank inference_mode add_generation_prompt padding_side"
)
_OWN_CODE = "callbacks data_collator collate_fn optimizers logits_processor"
# Classes and functions of transformers, PEFT and TRL whose arguments recipes have as keys.
_CLASSES = {
    **dict.fromkeys(("loraconfig", "get_peft_model"), f"write [train.{LORA.table}]"),
    "bitsandbytesconfig": next(iter(_QUANTIZED.values())),
    **dict.fromkeys(("automodelforcausallm", "from_pretrained", "autotokenizer"), "set `model.name`"),
    **dict.fromkeys(("trainingarguments",), "write [train]"),
    **dict.fromkeys(("causal_lm", "seq_cls"), "remove it: recipec sets it from `goal.task`"),
    "save_pretrained": 'remove it: README.md of a bundle, section "The result", says what a run leaves',
    "fast_inference": 'set `alignment.generation.engine = "vllm"`',
}
_SWITCHES = "do_train do_eval plot_loss overwrite_cache memory_efficient_fsdp_wrap custom_sharded_layers"
_MASKING += " masking loss_masking"
_CLASSES_OF_ROWS = "class_weight class_weights weighted_loss imbalance imbalanced class_imbalance"
_CLASSES_OF_ROWS += " oversample oversampling"
_LABELS = "label labels thumb thumbs thumbs_up thumbs_down feedback vote votes rating ratings"
_WINNERS = "winner winners preferred loser"
_TURNS_OF_TALKS = "multi_turn multi-turn multiturn"
# What people look for by a word that is no name of a key.
_TOPICS = {
    **dict.fromkeys(
        _CLASSES_OF_ROWS.split(),
        "put the rows of rare classes into a file of their own, and set `data.train.weight`, how often each of its "
        "rows is used: no loss weighs classes",
    ),
    **dict.fromkeys(
        _LABELS.split(),
        "set `data.preferences`: KTO learns from rows with a prompt, an answer and a label, true or false "
        "(`recipec explain unpaired-preference`), and `data.columns` names a label that is called otherwise, such as "
        '`columns = { label = "thumb" }`; the class of a text is the answer with '
        '`columns = { prompt = "text", completion = "label" }` under [data]',
    ),
    **dict.fromkeys(
        _WINNERS.split(),
        "set `data.preferences`: DPO learns from pairs of a better and a worse answer, which `data.columns` names "
        "(`recipec explain preference`); of rows whose column names the better one of two answers, `recipec check` "
        "prints the command that makes pairs",
    ),
    **dict.fromkeys(
        _TURNS_OF_TALKS.split(),
        "set `data.train` to rows of conversations (`recipec explain chat`); `data.loss_on` says which of their "
        "answers are learned",
    ),
    "parallel_tool_calls": "remove it: an answer holds one call or several in `tool_calls` (`recipec explain tools`)",
    **dict.fromkeys(
        ("oom", "out_of_memory", "cuda_oom"),
        "lower `data.max_length` or `train.micro_batch_size`; `recipec plan` predicts the memory, and says what fits",
    ),
    "knowledge_distillation": 'set `goal.task = "distill"`, or for a teacher that judges the model\'s own answers '
    "`recipec explain on-policy-distill`",
    **dict.fromkeys(("early_stop", "early_stopper"), "set `train.early_stopping_patience`"),
    **dict.fromkeys(
        ("routing", "router"),
        "write `[[adapters]]`: `combine.py` of the bundle routes questions to them; the router of a mixture of "
        "experts has no key (`train.lora.expert_rank` adapts experts)",
    ),
    "ties": "write `[[adapters]]`: `combine.py merge --how ties` of the bundle merges adapters so",
    **dict.fromkeys(("scratch", "from_scratch"), 'set `goal.task = "pretrain"`, which begins with random weights'),
    "adapters.name.epochs": "set `adapters.epochs`, which is `epochs` in the `[[adapters]]` table of that name",
}
_WORKERS = "num_workers preprocessing_num_workers dataset_processes num_proc"
_OF_VARIANTS = {
    word: f'set `train.lora.variant = "{row.name}"`'
    for row in LORA_VARIANTS.values()
    for word in (*row.elsewhere, *([row.name] if row is not STANDARD else []))
}
# Words that people type and that have no key of their own here -> what to write.
WORDS: dict[str, str] = {
    "batch_size": "set `train.global_batch_size` (over all GPUs), or `train.micro_batch_size` (on each GPU)",
    **dict.fromkeys(_QUANTIZING.split(), next(iter(_QUANTIZED.values()))),
    **{word: _QUANTIZED[base] for base in _QUANTIZED for word in BASES[base].switches},
    **_OF_VARIANTS,
    **_TOPICS,
    **dict.fromkeys(_MASKING.split(), "remove it: answers alone are learned, and `data.loss_on` says which of them"),
    **dict.fromkeys(_TOKENS.split(), "remove it: the chat template decides it (`recipec explain DATA-010`)"),
    **dict.fromkeys(
        _SORTING.split(),
        "remove it: recipec groups rows of similar length where that pays; `train.sampling` says whether",
    ),
    **dict.fromkeys(_WORKERS.split(), "remove it: recipec sets it from `hardware.cpu_cores`"),
    **dict.fromkeys(_TOKENIZER.split(), "remove it: `model.name` brings its own"),
    **dict.fromkeys(_SDPA.split(), "set `train.attention`, or leave it out: recipec takes PyTorch's own kernels"),
    **_CLASSES,
    **dict.fromkeys(_FLASH.split(), _NO_FLASH_PACKAGE),
    **dict.fromkeys(
        ("shuffle", "shuffle_data", "shuffle_merged_datasets"), "remove it: rows are shuffled, with `recipe.seed`"
    ),
    **dict.fromkeys(("dedup", "deduplicate"), "remove it: identical rows are removed (`recipec explain DATA-008`)"),
    **dict.fromkeys(
        ("ref_model", "reference_model", "ref_model_sync"), "remove it: it is the model that the stage starts from"
    ),
    **dict.fromkeys(
        ("resume", "auto_resume", "auto_resume_from_checkpoints", "resume_from_checkpoint", "overwrite_output_dir"),
        "remove it: `train.py` resumes from its newest checkpoint",
    ),
    **dict.fromkeys(("beta2", "adam_betas", "betas"), "remove it: recipec sets it (`recipec explain OPT-005`)"),
    **dict.fromkeys(("beta1", "adam_eps", "epsilon", "momentum", "fused"), "remove it: recipec sets it"),
    **dict.fromkeys(
        ("aux_loss", "moe_aux_loss", "router_aux_loss", "router_aux_loss_coef"),
        "remove it: the model's configuration has it",
    ),
    **dict.fromkeys(
        ("neftune", "neftune_alpha", "noisy_embedding_alpha"),
        "write `arguments = { neftune_noise_alpha = 5.0 }` under [train] where the model neither writes answers nor is "
        "compared with a reference, as in supervised fine-tuning",
    ),
    **dict.fromkeys(("deterministic", "determinism"), "write `arguments = { full_determinism = true }` under [train]"),
    **dict.fromkeys(
        ("cross_entropy", "nll", "chunked_nll"), "remove it: it is the loss of `goal.task` without preferences"
    ),
    **dict.fromkeys(
        ("merge", "merge_lora", "merge_and_unload"), "remove it: `merge_adapter.py` of the bundle merges the adapter"
    ),
    **dict.fromkeys(
        ("add_weighted_adapter", "weighted_adapter", "combination_type", "merge_method", "task_arithmetic"),
        "remove it: `combine.py merge` of a bundle with `[[adapters]]` combines adapters",
    ),
    **dict.fromkeys(("eval_batch_size", "eval_micro_batch_size"), "remove it: recipec sets it"),
    "max_prompt_length": "set `data.max_length`, the tokens of the prompt and the answer together",
    "perplexity": "remove it: `evaluate.py` writes it, before and after training",
    "bias": "remove it: adapters train no bias",
    **dict.fromkeys(_PLACED.split(), "remove it: recipec decides it"),
    **dict.fromkeys(_OWN_CODE.split(), "change `train.py` of the bundle: a new build keeps what you have changed"),
    **dict.fromkeys(
        ("prompt_tuning_init", "prompt_tuning_init_text"), "remove it: a soft prompt begins as random tokens"
    ),
    **dict.fromkeys(
        _TURNS.split(),
        "remove it: recipec reads turns with `role` and `content`, or `from` and `value`; give them the speakers "
        "system, user (or human) and assistant (or gpt)",
    ),
    **dict.fromkeys(
        ("dataset_prepared_path", "tokenized_path", "cache_dir"),
        "remove it: `prepare_data.py` of the bundle writes the prepared rows",
    ),
    "pretraining_dataset": 'set `data.train` and `goal.task = "continue-pretrain"`',
    **dict.fromkeys(("data.sft", "data.instruct"), "set `data.train`, the rows of `goal.task`"),
    **dict.fromkeys(
        ["data.pretrain", "data.cpt", "raw_text", "domain_data", "domain_corpus", "corpus"],
        "set `data.domain_text`, which continued pretraining learns before the other stages; with `goal.task = "
        '"continue-pretrain"` it runs alone',
    ),
    "fsdp_version": 'remove it: `train.strategy = "fsdp"` is FSDP2',
    "logging": "set `train.logging_steps`, or `track.to` for a tracker",
    "track.entity": 'write `env = { WANDB_ENTITY = "NAME" }` under [launch]',
    "wandb_entity": 'write `env = { WANDB_ENTITY = "NAME" }` under [launch]',
    "wandb_mode": 'write `env = { WANDB_MODE = "offline" }` under [launch]',
    "task_type": "set `goal.task`",
    "disable_gradient_checkpointing": "set `train.activation_checkpointing` to the opposite: true recomputes layers",
    "tf32": "remove it: recipec turns TF32 on where the GPU has it",
    **{row.name: f"set `{row.asked_by}`" for row in ADAPTATIONS.values() if row.quantized},
    **dict.fromkeys(("limit", "max_rows", "num_samples"), "set `take` in the source of `data.train`"),
    "max_samples": "set `take` in the source of `data.train`, the number of its rows that are used",
    "wandb": 'set `track.to = "wandb"` and `track.project`',
    **dict.fromkeys(
        ("hf_token", "hf_hub_token", "wandb_api_key"), "set it in the environment: recipes hold no secrets"
    ),
    **dict.fromkeys(("training", "training_args", "trainer_args", "hyperparameters"), "write [train]"),
    **{table: f"write [train.{table}]" for table in TABLES},
    **dict.fromkeys(("lora_config", "peft_config"), f"write [train.{LORA.table}]"),
    **dict.fromkeys(("licences", "license", "licence"), "write `licenses`, a list"),
    **dict.fromkeys(
        _FOLDERS.split(),
        "remove it: checkpoints, logs and results are in `outputs/` of the bundle; build the bundle in the folder "
        "where they are to be, with `recipec build -o FOLDER`",
    ),
    **dict.fromkeys(_SWITCHES.split(), "remove it: a bundle has no such switch"),
    **dict.fromkeys(("push_to_hub", "hub_model_id"), "remove it: upload the result with `hf upload` after the run"),
    "_component_": "name the model in `model.name` and the data in `data.train`: a recipe names no Python classes",
}
