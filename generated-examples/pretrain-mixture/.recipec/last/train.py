"""Pretraining of Qwen/Qwen3-30B-A3B-Base from random weights for pretrain-mixture: full training, 9,599,002 of
9,600,000 rows.

A first look (data, baseline, a short training, evaluation), then the whole training:

    bash launch/local.sh --max-steps 20
    bash launch/local.sh

Compiled by recipec 0.1.0 from pretrain-mixture.toml. Edit freely: `recipec build` keeps your edits.
Why is line N as it is?  recipec why train.py:N
"""

import argparse
import json
import math
import os
import secrets
import shutil
import sys
import time
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path

import deepspeed
import torch
from datasets import Dataset
from torch import distributed
from torch.utils.tensorboard import SummaryWriter
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    get_scheduler,
)

from batches import UNTRAINED, evaluation_batches, global_batch_size, steps, steps_per_epoch, trained_tokens
from checkpoints import Progress, delete_old, load_checkpoint, save_checkpoint, save_result
from experts import BALANCE_LOSS, balance_loss, expert_groups, load_metrics, routing, spread_experts, unrouted
from preflight import (
    check_devices,
    check_disk,
    check_rows,
    check_tokenizer,
    checkpoint_to_resume,
    compare_with_plan,
    forget_result,
    is_finished,
    lock_folder,
    model_facts,
    result_files,
    sizes,
    this_run,
    try_save,
    write_whole,
)
from rows import encode, prepared
from settings import Settings

BUNDLE = Path(__file__).resolve().parent
ENGINE_CONFIG = str(BUNDLE / "configs/deepspeed.json")  # what DeepSpeed shards, clips and casts
MODEL = "Qwen/Qwen3-30B-A3B-Base"
DATA = BUNDLE / "data" / "pretrain"
PLAN = "07c1e979f3cc0383-pretrain"  # checkpoints carry this; resuming another plan's checkpoint is refused
EVAL_ROWS = 500  # evaluated on the way: always the same ones
PREDICTED_PEAK_GIB = 109.3
STEP_SECONDS = 54.0  # predicted: time and cost of the plan are so many seconds for every step


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--max-steps", type=int, default=-1, help="stop after this many optimizer steps")
    parser.add_argument("--output-dir", type=Path, default=BUNDLE / "outputs" / "pretrain")
    parser.add_argument("--resume", default="auto", help="auto: newest checkpoint; none: finished run anew; or a path")
    return parser.parse_args()


def training_config(args: argparse.Namespace) -> Settings:
    return Settings(
        output_dir=str(args.output_dir),
        seed=42,
        num_train_epochs=1,
        max_steps=args.max_steps,
        per_device_train_batch_size=1,
        # reaches the global batch of 1,024 sequences on 8 data-parallel ranks, whose gradients are added up in bf16
        gradient_accumulation_steps=128,
        per_device_eval_batch_size=1,
        learning_rate=1.5e-4,
        lr_scheduler_type="cosine",
        warmup_steps=0.01,  # below 1: a share of all steps
        adam_beta1=0.9,
        adam_beta2=0.95,
        adam_epsilon=1e-8,
        weight_decay=0.1,
        max_grad_norm=1.0,
        max_length=4096,  # documents are packed into full blocks of this length
        eval_steps=118 if args.max_steps == -1 else 0.5,  # steps; cut short, half way and at the end
        save_steps=472 if args.max_steps == -1 else 0.5,  # a multiple of eval_steps
        save_total_limit=3,
        load_best_model_at_end=True,
        logging_steps=10,
        report_to="tensorboard",
        run_name="pretrain-mixture",
        dataloader_num_workers=8,
        dataloader_pin_memory=True,
        dataset_num_proc=64,  # processes that tokenize while the GPUs wait
        ddp_timeout=3600,  # seconds that the other ranks wait for the rows
        dataloader_prefetch_factor=2,
    )


def load_model() -> PreTrainedModel:
    shape = AutoConfig.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_config(
        shape,
        dtype="bfloat16",
        attn_implementation="sdpa",
    )
    model = spread_experts(model)
    return model


def as_trackers_name(entry: dict[str, float]) -> dict[str, float]:
    """The names of the Trainer: eval/loss, train/loss."""
    return {f"eval/{name[5:]}" if name.startswith("eval_") else f"train/{name}": entry[name] for name in entry}


def read_rows(split: str) -> Dataset:
    """The prepared rows of a split; of those that are evaluated on the way the first ones."""
    rows = prepared(DATA / f"{split}.jsonl")
    return rows if split == "train" else rows.select(range(min(EVAL_ROWS, len(rows))))


def tokenized(rows: Dataset, tokenizer: PreTrainedTokenizerBase, settings: Settings) -> Dataset:
    """The tokens of all rows, joined and cut into blocks, all of which are learned."""

    def encoded(row: dict) -> dict:
        return {"input_ids": encode(row, tokenizer)[0]}

    def blocks(rows: dict) -> dict:
        tokens, length = list(chain.from_iterable(rows["input_ids"])), settings.max_length
        cut = [tokens[start : start + length] for start in range(0, len(tokens), length)]
        return {"input_ids": cut, "labels": cut, "length": [len(block) for block in cut]}

    encoded_rows = rows.map(encoded, remove_columns=rows.column_names, num_proc=settings.dataset_num_proc)
    return encoded_rows.map(blocks, batched=True, remove_columns=["input_ids"], num_proc=settings.dataset_num_proc)


def decayed(model: PreTrainedModel, settings: Settings) -> list[dict]:
    """Matrices decay; biases and the weights of norms, which are vectors, do not."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in trained if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in trained if weight.ndim == 1], "weight_decay": 0.0},
    ]


def in_steps(interval: float, total_steps: int) -> int:
    """An interval below 1 is a share of all steps."""
    return math.ceil(interval * total_steps) if interval < 1 else int(interval)


class Training:
    """One run: what changes from step to step, and what is done at each of them."""

    def __init__(self, settings: Settings, run: dict) -> None:
        self.settings, self.run, self.output_dir = settings, run, Path(settings.output_dir)
        torch.set_float32_matmul_precision("high")  # products of what is left in fp32 run as TF32
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
        deepspeed.init_distributed(timeout=timedelta(seconds=settings.ddp_timeout))
        self.device, self.rank = torch.accelerator.current_accelerator(), distributed.get_rank()
        self.ranks = distributed.get_world_size()
        if not self.rank:  # each writer makes a file
            self.tracker = SummaryWriter(self.output_dir / "runs" / settings.run_name)
        self.tokenizer = AutoTokenizer.from_pretrained(MODEL)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token  # no label is made of what only fills
        if self.rank:  # the first rank's rows are then in the cache
            distributed.barrier()
        self.rows = {name: tokenized(read_rows(name), self.tokenizer, settings) for name in ("train", "eval")}
        if not self.rank:
            distributed.barrier()
        torch.manual_seed(settings.seed)  # of weights that are new
        self.plain_model = load_model()
        self.make_optimizer()
        self.progress = Progress()
        self.sums = torch.zeros(4, dtype=torch.float64, device=self.device)  # since the last log: see `passed`
        self.routed = unrouted(self.plain_model).to(self.device)  # since the last log
        self.eval_loss = math.inf

    def make_optimizer(self) -> None:
        settings = self.settings
        each = steps_per_epoch(self.rows["train"], settings, self.ranks)
        self.total_steps = settings.max_steps if settings.max_steps > 0 else math.ceil(settings.num_train_epochs * each)
        self.eval_every, self.save_every = (
            in_steps(interval, self.total_steps) for interval in (settings.eval_steps, settings.save_steps)
        )
        self.optimizer = torch.optim.AdamW(
            expert_groups(decayed(self.plain_model, settings)),
            lr=settings.learning_rate,
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            fused=True,
        )
        self.schedule = get_scheduler(
            settings.lr_scheduler_type,
            self.optimizer,
            num_warmup_steps=in_steps(settings.warmup_steps, self.total_steps),
            num_training_steps=self.total_steps,
        )

    def check_rows(self) -> None:
        """Stop where the rows teach nothing, or too few are left of them."""
        rows = self.rows["train"]
        self.counted = check_rows(rows, self.tokenizer, self.rank == 0)
        check_tokenizer(rows, self.tokenizer, self.plain_model.get_input_embeddings().num_embeddings)

    def go_on(self, checkpoint: str | None, anew: bool) -> None:
        """Wrap the model, go back to a checkpoint, and compare the run with its plan before anything is learned."""
        self.model, self.optimizer, *_ = deepspeed.initialize(
            model=self.plain_model,
            optimizer=self.optimizer,
            lr_scheduler=self.schedule,  # the engine's step() moves it on, and its checkpoints hold it
            config=ENGINE_CONFIG,
        )
        if checkpoint:
            self.progress = load_checkpoint(Path(checkpoint), self.model)
        facts = {
            "distributed": "deepspeed" if self.model.zero_optimization() else "ddp",
            "world_size": self.ranks,
            "global_batch_size": global_batch_size(self.settings, self.ranks),
            **model_facts(self.model),
            "rows": len(self.rows["train"]),
            "trained_tokens": self.counted["trained_tokens"],
        }
        compare_with_plan(facts)
        try_save(self.save_model, self.output_dir, self.rank)
        if self.rank == 0:
            (self.output_dir / "facts.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            print("facts:", json.dumps(facts))
            forget_result(self.output_dir, anew)
        self.began, self.logged = time.monotonic(), self.progress.global_step
        self.timed = self.logged + 20  # the step at which the time of a step is compared with the plan

    def train(self) -> None:
        done = self.progress.global_step
        if not done:
            self.evaluate()  # the baseline, and proof that evaluation fits
        ahead = steps(self.rows["train"], self.settings, self.rank, self.ranks, done)
        for batches in islice(ahead, self.total_steps - done):
            self.step(batches)
            if self.is_due(self.settings.logging_steps) or self.is_due(self.save_every):
                self.log_step()
            if self.is_due(self.eval_every):
                self.evaluate()
            if self.is_due(self.save_every):
                self.save()

    def is_due(self, every: int) -> bool:
        """At every so many steps and at the last one; at 0 never."""
        step = self.progress.global_step
        return every > 0 and (step % every == 0 or step == self.total_steps)

    def step(self, batches: list[dict[str, torch.Tensor]]) -> None:
        """One optimizer step. Every trained token counts alike, on whatever rank and in whatever micro batch it is."""
        progress = self.progress
        self.model.train()
        trained = self.summed(trained_tokens(batches).to(self.device))
        for place, batch in enumerate(batches, start=1):  # the last step of an epoch may have fewer than planned
            self.model.set_gradient_accumulation_boundary(place == len(batches))
            self.micro_step(batch, trained, len(batches))
        self.learning_rate = self.schedule.get_last_lr()[0]
        self.model.step()  # clips, updates, moves the schedule on and clears the gradients
        self.grad_norm = self.model.get_global_grad_norm()
        progress.global_step += 1
        progress.epoch = progress.global_step / steps_per_epoch(self.rows["train"], self.settings, self.ranks)

    def micro_step(self, batch: dict[str, torch.Tensor], trained: torch.Tensor, micro_steps: int) -> None:
        """Forward and backward, without waiting for the device. Ranks average gradients, so that each sums its own."""
        loss, counts = self.passed(batch)
        self.routed += routing(self.plain_model)
        balance = BALANCE_LOSS * balance_loss(self.plain_model) / micro_steps
        whole = loss * (self.ranks / trained) + balance  # the mean of the step already
        self.model.backward(whole, scale_wrt_gas=False)
        self.sums += torch.cat([(loss.detach() / trained)[None], counts])

    def passed(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """The summed loss of the trained tokens; how many are predicted, how many are trained, and all tokens."""
        batch = {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.items()}
        labels, mask = batch["labels"][:, 1:], batch["attention_mask"]
        outputs = self.model(**batch, use_cache=False, num_items_in_batch=1)  # 1: a sum, not a mean
        right = outputs.logits[:, :-1].argmax(-1) == labels  # never where nothing is trained
        return outputs.loss, torch.stack([right.sum(), (labels != UNTRAINED).sum(), mask.sum()]).double()

    def log_step(self) -> None:
        """Tell the losses since the last log. Here alone the host waits for the device."""
        progress, now = self.progress, time.monotonic()
        loss, right, trained, tokens = self.summed(self.sums).tolist()
        count, seconds = progress.global_step - self.logged, now - self.began
        progress.num_tokens += int(tokens)
        entry = {
            "loss": loss / count,
            "grad_norm": float(self.grad_norm),
            "learning_rate": self.learning_rate,
            "mean_token_accuracy": right / max(trained, 1),
            "num_tokens": progress.num_tokens,
            "tokens_per_second": tokens / self.ranks / seconds,  # of each rank, no padding
            "peak_memory_gib": torch.accelerator.max_memory_allocated() / 2**30,
        }
        if self.logged < self.timed <= progress.global_step and self.rank == 0:
            print(f"Steps take {seconds / count / STEP_SECONDS:.2g} x the planned {STEP_SECONDS:.2g} s.")
        entry |= load_metrics(self.summed(self.routed))
        self.routed.zero_()
        self.sums.zero_()
        self.began, self.logged = time.monotonic(), progress.global_step
        self.record(entry | self.counted)
        self.counted = {}

    def record(self, entry: dict[str, float]) -> None:
        """Into trainer_state.json, the tracker and the output; a number that is none ends the run."""
        step = self.progress.global_step
        if bad := next((key for key in ("loss", "eval_loss") if not math.isfinite(entry.get(key, 0.0))), ""):
            raise RuntimeError(
                f"{bad} is {entry[bad]} at step {step}. Halve the learning rate, "
                "prefer bf16 to fp16, and look for empty or broken rows in the data."
            )
        self.progress.log_history.append(entry | {"step": step, "epoch": self.progress.epoch})
        for name, value in as_trackers_name(entry).items() if self.rank == 0 else ():
            self.tracker.add_scalar(name, value, step)
        if self.rank == 0:
            print(json.dumps(self.progress.log_history[-1]))

    @torch.no_grad()
    def evaluate(self) -> None:
        """Every trained token of the evaluation rows counts alike, so that no batch and no rank weighs more."""
        began, totals = time.monotonic(), torch.zeros(3, dtype=torch.float64, device=self.device)
        self.model.eval()
        routed = torch.zeros_like(self.routed)
        for batch in evaluation_batches(self.rows["eval"], self.settings, self.rank, self.ranks):
            loss, counts = self.passed(batch)
            totals += torch.cat([loss[None], counts[:2]])
            routed += routing(self.plain_model)
        loss, right, trained = self.summed(totals).tolist()
        self.eval_loss = loss / trained
        entry = {
            "eval_loss": self.eval_loss,
            "eval_mean_token_accuracy": right / trained,
            "perplexity": math.exp(min(self.eval_loss, 100.0)),
        }
        entry["eval_dropped_tokens"] = load_metrics(self.summed(routed))["dropped_tokens"]
        if losses := [logged["loss"] for logged in self.progress.log_history if "loss" in logged]:
            entry["train_eval_gap"] = (self.eval_loss - losses[-1]) / losses[-1]
        self.record(entry)
        self.began += time.monotonic() - began

    def save(self) -> None:
        """A checkpoint of the evaluation just made; the oldest goes, but neither the best nor the newest."""
        began, progress = time.monotonic(), self.progress
        if progress.best_metric is None or self.eval_loss < progress.best_metric:
            progress.best_metric, progress.best_global_step = self.eval_loss, progress.global_step
        folder = self.output_dir / f"checkpoint-{progress.global_step}"
        save_checkpoint(folder, self.model, progress)
        if self.rank == 0:
            saved = [self.output_dir, *folder.rglob("*")]
            write_whole(folder / "run.json", self.run | {"files": sizes(folder)}, saved)
            delete_old(self.output_dir, self.settings.save_total_limit, progress.best_global_step)
        distributed.barrier()
        self.began += time.monotonic() - began

    def finish(self) -> None:
        """The best weights as the result, marked as whole: a later launch does not train it again."""
        best = self.progress.best_global_step  # 0: no checkpoint was written
        if self.settings.load_best_model_at_end and best not in (0, self.progress.global_step):
            load_checkpoint(self.output_dir / f"checkpoint-{best}", self.model)
        self.save_model(self.output_dir)
        if self.rank == 0:
            shutil.copy(BUNDLE / "registry/model_card.md", self.output_dir / "README.md")
            result = self.run | {"result": secrets.token_hex(8)}
            write_whole(self.output_dir / "finished.json", result, result_files(self.output_dir))
        distributed.barrier()  # a rank that leaves early can break the connections of the others
        distributed.destroy_process_group()

    def save_model(self, folder: Path) -> None:
        save_result(self.plain_model, self.tokenizer, folder)

    def summed(self, numbers: torch.Tensor) -> torch.Tensor:
        """Over all ranks."""
        distributed.all_reduce(numbers)
        return numbers


def main() -> None:
    args = parse_args()
    check_devices()
    run = this_run(PLAN, args.max_steps, DATA)
    lock_folder(args.output_dir)
    if is_finished(args.output_dir, args.resume, run):
        return
    check_disk(args.output_dir)
    checkpoint = checkpoint_to_resume(args.output_dir, args.resume, run)
    training = Training(training_config(args), run)
    training.check_rows()
    training.go_on(checkpoint, anew=args.resume == "none")
    training.train()
    training.finish()
    peak_gib = torch.accelerator.max_memory_allocated() / 2**30
    print(f"Peak of rank {training.rank}: {peak_gib:.2f} GiB allocated, {PREDICTED_PEAK_GIB} predicted.")


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # what is printed of rows may have letters that a log cannot
    main()
