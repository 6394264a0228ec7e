"""Supervised fine-tuning of Qwen/Qwen2.5-14B-Instruct for code-assistant: a LoRA adapter, 38,960 of 40,000 rows.

A first look (data, baseline, a short training, evaluation), then the whole training:

    bash launch/local.sh --max-steps 20
    bash launch/local.sh

Compiled by recipec 0.1.0 from code-assistant.toml. Edit freely: `recipec build` keeps your edits.
Why is line N as it is?  recipec why train.py:N
"""

import argparse
import os
from functools import partial
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports every run to the Hub otherwise
os.environ.setdefault("WANDB_PROJECT", "code-assistant")

import torch
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

from preflight import (
    RunGuard,
    StopWithoutProgress,
    check_devices,
    check_disk,
    check_rows,
    check_tokenizer,
    checkpoint_to_resume,
    is_finished,
    lock_folder,
    this_run,
)
from rows import prepared
from similar_lengths import SimilarLengths

BUNDLE = Path(__file__).resolve().parent
MODEL = "Qwen/Qwen2.5-14B-Instruct"
DATA = BUNDLE / "data" / "sft"
PLAN = "ad3ace83f89da10c-sft"  # checkpoints carry this; resuming another plan's checkpoint is refused
EVAL_ROWS = 500  # evaluated on the way: always the same ones
PREDICTED_PEAK_GIB = 58.8


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--max-steps", type=int, default=-1, help="stop after this many optimizer steps")
    parser.add_argument("--output-dir", type=Path, default=BUNDLE / "outputs" / "sft")
    parser.add_argument("--resume", default="auto", help="auto: newest checkpoint; none: finished run anew; or a path")
    return parser.parse_args()


def training_config(args: argparse.Namespace) -> SFTConfig:
    return SFTConfig(
        output_dir=str(args.output_dir),
        seed=42,
        num_train_epochs=2,
        max_steps=args.max_steps,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=4,  # reaches the global batch of 32 sequences on 1 data-parallel rank
        per_device_eval_batch_size=8,
        learning_rate=2e-4,
        lr_scheduler_type="cosine",
        warmup_steps=0.03,  # below 1: a share of all steps
        optim="adamw_torch_fused",
        adam_beta1=0.9,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        weight_decay=0.01,
        max_grad_norm=1.0,
        bf16=True,
        tf32=True,
        activation_checkpointing=True,
        activation_checkpointing_kwargs={"use_reentrant": False},
        max_length=4096,
        packing=False,
        completion_only_loss=True,
        train_sampling_strategy="group_by_length",  # orders evaluations; similar_lengths.py orders the training
        eval_strategy="steps",
        eval_steps=0.1 if args.max_steps == -1 else 0.5,  # a share of all steps; cut short, half way and at the end
        eval_on_start=True,  # the baseline, and proof that evaluation fits
        save_strategy="steps",
        save_steps=0.1 if args.max_steps == -1 else 0.5,
        save_total_limit=3,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_steps=10,
        logging_nan_inf_filter=False,  # a NaN is shown, not logged as 0
        report_to=["tensorboard", "wandb"],
        run_name="code-assistant",
        dataloader_num_workers=8,
        dataloader_pin_memory=True,
        dataset_num_proc=24,  # processes that tokenize while the GPUs wait
        dataloader_prefetch_factor=2,
        dataloader_persistent_workers=False,
        model_init_kwargs={"dtype": "bfloat16", "attn_implementation": "sdpa"},
    )


def lora_config() -> LoraConfig:
    return LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules="all-linear",
        bias="none",
        task_type="CAUSAL_LM",
    )


def main() -> None:
    args = parse_args()
    check_devices()
    run = this_run(PLAN, args.max_steps, DATA)
    lock_folder(args.output_dir)
    if is_finished(args.output_dir, args.resume, run):
        return
    check_disk(args.output_dir)
    checkpoint = checkpoint_to_resume(args.output_dir, args.resume, run)
    rows = {split: prepared(DATA / f"{split}.jsonl") for split in ("train", "eval")}
    config = training_config(args)
    trainer = SFTTrainer(
        model=MODEL,
        args=config,
        train_dataset=rows["train"],
        eval_dataset=rows["eval"].select(range(min(EVAL_ROWS, len(rows["eval"])))),
        peft_config=lora_config(),
        callbacks=[StopWithoutProgress(patience=3)],
    )
    trainer._get_train_sampler = partial(SimilarLengths, trainer)  # transformers' own changes after a resume
    trainer.args.eval_on_start = checkpoint is None  # a resumed run has its baseline
    guard = RunGuard(trainer, run, anew=args.resume == "none")
    trainer.callback_handler.callbacks.insert(0, guard)  # first: trackers then log what it measures
    check_tokenizer(trainer)
    guard.counted = check_rows(trainer, DATA / "report.json")
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model()
    guard.finish()
    peak_gib = torch.accelerator.max_memory_allocated() / 2**30
    print(f"Peak of rank {trainer.args.process_index}: {peak_gib:.2f} GiB allocated, {PREDICTED_PEAK_GIB} predicted.")


if __name__ == "__main__":
    main()
