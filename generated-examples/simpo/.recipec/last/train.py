"""Simple preference optimization (SimPO) of meta-llama/Llama-3.1-8B-Instruct for simpo: full fine-tuning, 59,004 of
60,000 rows.

A first look (data, baseline, a short training, evaluation), then the whole training:

    bash launch/local.sh --max-steps 20
    bash launch/local.sh

Compiled by recipec 0.1.0 from simpo.toml. Edit freely: `recipec build` keeps your edits.
Why is line N as it is?  recipec why train.py:N
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports every run to the Hub otherwise

import torch
from accelerate import PartialState
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from trl import DPOConfig

from preflight import (
    RunGuard,
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
from simpo import SimPOTrainer

BUNDLE = Path(__file__).resolve().parent
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
DATA = BUNDLE / "data" / "simpo"
PLAN = "2d67e1dc9cb2c230-simpo"  # checkpoints carry this; resuming another plan's checkpoint is refused
EVAL_ROWS = 500  # evaluated on the way: always the same ones
PREDICTED_PEAK_GIB = 46.3


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--max-steps", type=int, default=-1, help="stop after this many optimizer steps")
    parser.add_argument("--output-dir", type=Path, default=BUNDLE / "outputs" / "simpo")
    parser.add_argument("--resume", default="auto", help="auto: newest checkpoint; none: finished run anew; or a path")
    return parser.parse_args()


def training_config(args: argparse.Namespace) -> DPOConfig:
    return DPOConfig(
        output_dir=str(args.output_dir),
        seed=42,
        num_train_epochs=1,
        max_steps=args.max_steps,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=16,  # reaches the global batch of 128 pairs on 8 data-parallel ranks
        per_device_eval_batch_size=8,
        learning_rate=1e-6,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,  # below 1: a share of all steps
        optim="adamw_torch_fused",
        adam_beta1=0.9,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        weight_decay=0.0,
        max_grad_norm=1.0,
        bf16=True,
        tf32=True,
        activation_checkpointing=False,
        # keeps gradients sharded while they accumulate
        accelerator_config={"gradient_accumulation_kwargs": {"sync_each_batch": True}},
        max_length=2048,
        beta=2.0,
        disable_dropout=True,
        train_sampling_strategy="random",  # DPOTrainer, on which it is built, cannot group pairs by length
        eval_strategy="steps",
        eval_steps=0.2 if args.max_steps == -1 else 0.5,  # a share of all steps; cut short, half way and at the end
        eval_on_start=True,  # the baseline, and proof that evaluation fits
        save_strategy="no",  # none: only the last step would write one, just before the result
        logging_steps=10,
        logging_nan_inf_filter=False,  # a NaN is shown, not logged as 0
        report_to="tensorboard",
        run_name="simpo",
        dataloader_num_workers=4,
        dataloader_pin_memory=True,
        dataset_num_proc=64,  # processes that tokenize while the GPUs wait
        dataloader_prefetch_factor=2,
        dataloader_persistent_workers=False,
        model_init_kwargs={"dtype": "float32", "attn_implementation": "sdpa"},
    )


def load_model(config: DPOConfig) -> PreTrainedModel:
    """MODEL, which the first rank of a node reads; the others only make room, which FSDP fills from rank 0."""
    options, config.model_init_kwargs = config.model_init_kwargs, None  # TRL takes them beside a name alone
    reads = PartialState().is_local_main_process
    model = AutoModelForCausalLM.from_pretrained(MODEL, device_map=None if reads else "meta", **options)
    for module in [] if reads else model.modules():
        for name, parameter in module.named_parameters(recurse=False):  # addresses alone: no memory is written to
            setattr(module, name, torch.nn.Parameter(torch.empty_like(parameter, device="cpu")))
    model.tie_weights()
    return model


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
    with torch.device("meta"):  # under FSDP, DPOTrainer loads a reference beside the model unless it is given one
        reference = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(MODEL))
    # accelerate's policy without its output_dtype, which rounds losses and log-probabilities to 16 bits;
    # gradients are summed over the ranks in bf16, with half of fp32's traffic
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    config.fsdp_plugin_args = {"mixed_precision_policy": policy}
    trainer = SimPOTrainer(
        model=load_model(config),
        args=config,
        train_dataset=rows["train"],
        eval_dataset=rows["eval"].select(range(min(EVAL_ROWS, len(rows["eval"])))),
        gamma=1.0,
        ref_model=reference,
    )
    trainer.ref_model = None
    trainer.args.eval_on_start = checkpoint is None  # a resumed run has its baseline
    guard = RunGuard(trainer, run, anew=args.resume == "none")
    trainer.callback_handler.callbacks.insert(0, guard)  # first: trackers then log what it measures
    check_tokenizer(trainer)
    guard.counted = check_rows(trainer, DATA / "report.json")
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.model.to(torch.bfloat16)  # as it computed and is served; checkpoints keep the fp32 weights
    trainer.save_state()  # the log of the run, which no checkpoint has
    trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")  # one loadable model, not shards
    trainer.save_model()
    guard.finish()
    peak_gib = torch.accelerator.max_memory_allocated() / 2**30
    print(f"Peak of rank {trainer.args.process_index}: {peak_gib:.2f} GiB allocated, {PREDICTED_PEAK_GIB} predicted.")
    trainer.accelerator.wait_for_everyone()  # one that leaves early can break the connections of the others
    trainer.end()  # leave the process group; last, because saving needs it


if __name__ == "__main__":
    main()
