"""Continued pretraining of meta-llama/Llama-3.2-3B for new-domain: full fine-tuning, 8,000 of 10,000 rows.

A first look (data, baseline, a short training, evaluation), then the whole training:

    bash launch/local.sh --max-steps 20
    bash launch/local.sh

Compiled by recipec 0.1.0 from new-domain.toml. Edit freely: `recipec build` keeps your edits.
Why is line N as it is?  recipec why stages/1-continue-pretrain/train.py:N
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports every run to the Hub otherwise

import torch
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from preflight import (
    RunGuard,
    best_of_saved,
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

BUNDLE = Path(__file__).resolve().parents[2]
MODEL = str(BUNDLE / "extended-model")
DATA = BUNDLE / "data" / "continue-pretrain"
PLAN = "f4039e01b648e1d4-continue-pretrain"  # checkpoints carry this; resuming another plan's checkpoint is refused
EVAL_ROWS = 1000  # evaluated on the way: always the same ones
PREDICTED_PEAK_GIB = 63.7


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--max-steps", type=int, default=-1, help="stop after this many optimizer steps")
    parser.add_argument("--output-dir", type=Path, default=BUNDLE / "outputs" / "continue-pretrain")
    parser.add_argument("--resume", default="auto", help="auto: newest checkpoint; none: finished run anew; or a path")
    return parser.parse_args()


def training_config(args: argparse.Namespace) -> SFTConfig:
    return SFTConfig(
        output_dir=str(args.output_dir),
        seed=42,
        num_train_epochs=1,
        max_steps=args.max_steps,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=128,  # reaches the global batch of 128 sequences on 1 data-parallel rank
        per_device_eval_batch_size=2,
        learning_rate=2e-5,
        lr_scheduler_type="cosine",
        warmup_steps=0.03,  # below 1: a share of all steps
        optim="adamw_torch_fused",
        adam_beta1=0.9,
        adam_beta2=0.95,
        adam_epsilon=1e-8,
        weight_decay=0.1,
        max_grad_norm=1.0,
        bf16=True,
        tf32=True,
        activation_checkpointing=False,
        max_length=2048,  # documents are packed into full blocks of this length
        packing=True,
        packing_strategy="wrapped",
        train_sampling_strategy="random",  # packed sequences all have the same length
        eval_strategy="steps",
        eval_steps=22 if args.max_steps == -1 else 0.5,  # steps; cut short, half way and at the end
        eval_on_start=True,  # the baseline, and proof that evaluation fits
        save_strategy="steps",
        save_steps=66 if args.max_steps == -1 else 0.5,  # a multiple of eval_steps
        save_total_limit=3,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_steps=10,
        logging_nan_inf_filter=False,  # a NaN is shown, not logged as 0
        report_to="tensorboard",
        run_name="new-domain-continue-pretrain",
        dataloader_num_workers=8,
        dataloader_pin_memory=True,
        dataset_num_proc=24,  # processes that tokenize while the GPUs wait
        dataloader_prefetch_factor=2,
        dataloader_persistent_workers=False,
        model_init_kwargs={"dtype": "float32", "attn_implementation": "sdpa"},
    )


def new_tokens() -> dict[str, int]:
    """The tokens that vocabulary.py added to the model, and their numbers."""
    return json.loads((BUNDLE / "extended-model" / "new_tokens.json").read_text(encoding="utf-8"))


def check_new_tokens(rows: Dataset) -> None:
    """Name the new tokens that no row has: they learn little, unless rows of a later stage have them."""
    missing = {number: token for token, number in new_tokens().items()}
    added = len(missing)
    for row in rows:
        for number in missing.keys() & set(row["input_ids"]):
            del missing[number]
        if not missing:
            return
    names = ", ".join(map(repr, [*missing.values()][:10])) + ", …" * (len(missing) > 10)
    print(f"No training row has {len(missing):,} of the {added:,} new tokens: {names}")


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
    wanted = "meta-llama/Llama-3.2-3B\n" + (BUNDLE / "new_tokens.txt").read_text(encoding="utf-8")
    extended_from = Path(MODEL) / "taken_from.txt"
    if not extended_from.is_file() or extended_from.read_text(encoding="utf-8") != wanted:
        raise SystemExit(f"{MODEL} is not the model with new_tokens.txt: run vocabulary.py first")
    trainer = SFTTrainer(
        model=MODEL,
        args=config,
        train_dataset=rows["train"],
        eval_dataset=rows["eval"].select(range(min(EVAL_ROWS, len(rows["eval"])))),
    )
    best_of_saved(trainer)  # some evaluations have no checkpoint
    trainer.args.eval_on_start = checkpoint is None  # a resumed run has its baseline
    guard = RunGuard(trainer, run, anew=args.resume == "none")
    trainer.callback_handler.callbacks.insert(0, guard)  # first: trackers then log what it measures
    check_tokenizer(trainer)
    guard.counted = check_rows(trainer)
    check_new_tokens(trainer.train_dataset)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.model.to(torch.bfloat16)  # as it computed and is served; checkpoints keep the fp32 weights
    trainer.save_model()
    guard.finish()
    peak_gib = torch.accelerator.max_memory_allocated() / 2**30
    print(f"Peak of rank {trainer.args.process_index}: {peak_gib:.2f} GiB allocated, {PREDICTED_PEAK_GIB} predicted.")


if __name__ == "__main__":
    main()
