"""Words that people know from TRL, axolotl, LLaMA-Factory, unsloth and PEFT lead to a page of `recipec explain`."""

from __future__ import annotations

import pytest

from recipec.cli.explain import has_page
from recipec.cli.meanings import meaning_of

WORDS = """
flash-attn flash_attention_2 sdp_attention xformers neftune neftune_noise_alpha unsloth FastLanguageModel liger
enable_liger_kernel galore muon badam lora_target_linear gradient_checkpointing use_gradient_checkpointing
disable_gradient_checkpointing deepspeed fsdp fsdp_config full_shard wandb report_to SFTTrainer SFTConfig DPOTrainer
dpo_trainer GRPOConfig KTOTrainer RewardTrainer ORPOTrainer sample_packing neat_packing multipack lora_r lora_alpha
loraplus_lr_ratio pissa_init use_dora sequence_len cutoff_len max_seq_length val_set_size test_size eval_steps
warmup_ratio lr_scheduler_type load_in_4bit bnb_4bit_quant_type double_quant get_peft_model LoraConfig
BitsAndBytesConfig AutoModelForCausalLM train_on_responses_only train_on_inputs DataCollatorForCompletionOnlyLM
roles_to_train chat_template dataset_text_field ref_model pref_beta pref_loss simpo_gamma reward_funcs
num_generations use_vllm fast_inference max_completion_length finetuning_type stage dataset_dir
preprocessing_num_workers mask_history shift_attn rope_scaling freeze_trainable_layers peft_layers_to_transform
class_weights imbalance imbalanced oversample weighted_loss label thumbs_up feedback masking loss_masking multi-turn
thumb thumbs vote winner preferred
parallel_tool_calls oom knowledge_distillation early_stop routing router ties scratch adapters.NAME.epochs
modules_to_save lora_modules_to_save merge_and_unload push_to_hub device_map callbacks data_collator
auto_resume_from_checkpoints moe_aux_loss loha vera loftq gptq nvfp4
"""


@pytest.mark.parametrize("word", WORDS.split())
def test_a_word_has_a_page(word: str) -> None:
    assert has_page(word)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("flash-attn", '`train.attention = "sdpa"`'),
        ("SFTTrainer", '`goal.task = "instruct"`'),
        ("KTOConfig", '`goal.task = "align"` and `alignment.method = "kto"`'),
        ("loss masking", "`data.loss_on`"),
        ("early stop", "`train.early_stopping_patience`"),
        ("knowledge distillation", '`goal.task = "distill"`'),
        ("oversample", "`data.train.weight`"),
        ("scratch", '`goal.task = "pretrain"`'),
        ("gradient checkpointing", "`train.activation_checkpointing`"),
        ("deepspeed-zero-stage-3", '`train.strategy = "zero3"`'),
    ],
)
def test_its_page_says_what_to_write(word: str, says: str) -> None:
    """With hyphens or blanks in place of underscores, and by the names of TRL's classes."""
    assert says in str(meaning_of(word))


@pytest.mark.parametrize(
    ("word", "stated"),
    [("push_to_hub", "push_to_hub = false"), ("discopop_tau", "discopop_tau = 0.05"), ("hub_token", None)],
)
def test_the_page_of_a_refused_keyword_names_the_value_that_is_accepted(word: str, stated: str | None) -> None:
    page = str(meaning_of(word))
    assert "cannot set" in page
    assert ("changes nothing" in page) == (stated is not None) and (stated or "") in page
