"""Checks around training: what the model learns from, whether this is the planned run, whether it can be resumed."""

import fcntl
import hashlib
import json
import math
import os
import secrets
import shutil
import sys
import time
from pathlib import Path

import torch
from datasets import Dataset
from safetensors import safe_open
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.modeling_layers import GradientCheckpointingLayer

from rows import ends_with_stop, trained_text, trained_tokens

PLANNED = {
    "distributed": "none",
    "world_size": 1,
    "global_batch_size": 64,
    "shards_parameters": False,
}
CARD = Path(__file__).resolve().parent / "registry/model_card.md"  # README.md of the result
DISK_GIB = 80.3  # predicted: checkpoints, one being written, the result; or the save tried before them
STEP_SECONDS = 3.9  # predicted: time and cost of the plan are so many seconds for every step


def check_devices() -> None:
    """Stop at once where the GPUs are not as planned: the libraries would go on without any, or with all at once."""
    if torch.accelerator.current_accelerator(check_available=True) is None:
        raise SystemExit(
            "This run is planned for 1 x h100, and PyTorch sees no GPU. "
            "Check the driver, and whether this build of torch is for the GPU."
        )
    if "WORLD_SIZE" not in os.environ and (visible := torch.accelerator.device_count()) > 1:
        raise SystemExit(
            f"One process sees {visible} GPUs, and the Trainer would spread each batch over all (DataParallel). "
            "Start it with `bash launch/local.sh`, or make only one GPU visible."
        )


def this_run(plan: str, max_steps: int, data: Path) -> dict:
    """What makes two runs the same: the plan, the length, the rows and the number of processes."""
    rows = digest_of_rows(data)
    return {"plan": plan, "max_steps": max_steps, "rows": rows, "ranks": int(os.environ.get("WORLD_SIZE", "1"))}


def digest_of_rows(data: Path) -> str:
    """The digest of the report on the prepared rows, which has that of every row file."""
    report = data / "report.json"
    if not report.is_file():
        raise SystemExit(f"{report} is missing. Run prepare_data.py first.")
    return hashlib.sha256(report.read_bytes()).hexdigest()[:16]


def is_finished(output_dir: Path, resume: str, run: dict) -> bool:
    """Whether the result of this very run is there already: then nothing is left to train."""
    finished = told_by(output_dir / "finished.json")
    if resume != "auto" or finished is None or differences(finished, run):
        return False
    print(
        f"NOT TRAINED: {output_dir} holds the finished result of this run. To train it anew, move that folder away, "
        "or give train.py --resume none, which deletes its checkpoints."
    )
    return True


def told_by(marker: Path) -> dict | None:
    """The run that a marker tells of; None where it is missing, or was cut off while it was written."""
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def differences(other: dict, run: dict) -> str:
    """In what another run differs from this one; empty for the same run."""
    return ", ".join(f"{name} {other.get(name)}, here {run[name]}" for name in run if other.get(name) != run[name])


def is_trial_of(other: dict, run: dict) -> bool:
    """Whether another run was cut shorter than this one; -1 is the whole training."""
    return other["max_steps"] != -1 and (run["max_steps"] == -1 or other["max_steps"] < run["max_steps"])


def checkpoints(output_dir: Path) -> list[Path]:
    """The folders that the trainer saved into, the newest first."""
    found = [path for path in output_dir.glob("checkpoint-*") if path.name.partition("-")[2].isdecimal()]
    if files := [str(path) for path in found if not path.is_dir()]:
        raise SystemExit(f"{files[0]} is a file where the run saves a checkpoint. Move it away.")
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]), reverse=True)


def sizes(checkpoint: Path) -> dict[str, int]:
    """The files of a checkpoint, but its marker, and their bytes."""
    files = [path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path.stem != "run"]
    return {path.relative_to(checkpoint).as_posix(): path.stat().st_size for path in files}


def whole_run(checkpoint: Path) -> dict | None:
    """The run of a checkpoint whose files are all there; None, and a word, for another one."""
    its = told_by(checkpoint / "run.json")  # written last: without it the run was stopped while it saved
    if its is None:
        print(f"Skipping {checkpoint}: it is incomplete.")
        return None
    there, saved = sizes(checkpoint), its.get("files", {})
    damaged = [name for name in saved if there.get(name) != saved[name]]
    if damaged or not saved:
        print(f"Skipping {checkpoint}, with missing or damaged files: {', '.join(damaged) or 'their list'}.")
        return None
    return its


def checkpoint_to_resume(output_dir: Path, resume: str, run: dict) -> str | None:
    """The checkpoint to continue from: only a whole one, only of this run; a trial's are passed over."""
    found = checkpoints(output_dir)
    if resume == "none":
        if found and not (output_dir / "finished.json").is_file():
            raise SystemExit(
                f"{output_dir} has the checkpoints of a stopped run. Go on from them with --resume auto, "
                "or move that folder away."
            )
        return None
    for folder in [output_dir, *found] if resume == "auto" else [Path(resume)]:
        its = told_by(folder / "finished.json") if folder == output_dir else whole_run(folder)
        if its is None:
            continue
        if is_trial_of(its, run):
            print(f"Skipping {folder}: its run ended at --max-steps {its['max_steps']}.")
        elif other := differences(its, run):
            raise SystemExit(f"{folder} is of another run ({other}). Move {output_dir} away to train this one.")
        else:
            return str(folder)
    if resume != "auto":
        raise SystemExit(f"{resume} is no complete checkpoint of this run.")
    return None


def lock_folder(output_dir: Path) -> None:
    """Keep other runs out of the folder for as long as this process lives."""
    output_dir.mkdir(parents=True, exist_ok=True)
    if os.environ.get("RANK", "0") != "0":
        return  # the first rank locks it for all of them
    lock = os.open(output_dir / "run.lock", os.O_RDWR | os.O_CREAT)  # never closed: the lock ends with this process
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"Another run writes into {output_dir}. Wait for its end.") from None
    except OSError as error:
        print(f"{output_dir} cannot be locked ({error}). Start no second run in it.")


def check_disk(output_dir: Path) -> None:
    """Refuse a disk that is too small for the checkpoints: it would be full after hours."""
    written = sum(file.stat().st_size for file in output_dir.rglob("*") if file.is_file())
    room_gib = (written + shutil.disk_usage(output_dir).free) / 2**30
    if room_gib < DISK_GIB:
        raise SystemExit(
            f"{output_dir} has room for {room_gib:.1f} GiB, and this run needs {DISK_GIB} GiB. "
            "Make room, or make the bundle's folder outputs a link to another disk."
        )


def check_rows(trainer: Trainer, report_file: Path) -> dict[str, float]:
    """Show three rows as the model sees them; stop where they teach nothing; count for the log."""
    rows, tokenizer = trainer.train_dataset, trainer.processing_class
    if trainer.is_world_process_zero():
        sys.stdout.reconfigure(errors="backslashreplace")  # what is printed of rows may have letters that a log cannot
        for row in rows.select(range(min(3, len(rows)))):
            print(f"{'-' * 100}\n{trained_text(row, tokenizer)}")
    counted = {"trained_tokens": trained_tokens(first(rows))}  # of these first rows
    if not counted["trained_tokens"]:
        raise SystemExit("The first rows have no trained token. Check the loss mask and the data.")
    if not any(ends_with_stop(row, tokenizer) for row in first(rows)):
        raise SystemExit("No trained answer ends with <|im_end|>, so the model would never learn to stop.")
    lost = json.loads(report_file.read_text(encoding="utf-8"))["train"]["dropped_share"]  # before training
    if trainer.is_world_process_zero():
        print(f"dropped_rows: {lost:.2%} of the rows are longer than max_length.")
    counted["dropped_rows"] = lost
    return counted


def check_tokenizer(trainer: Trainer) -> None:
    """Refuse rows with tokens that the model has no embedding for."""
    tokenizer, embedded = trainer.processing_class, trainer.model.get_input_embeddings().num_embeddings
    for row in trainer.train_dataset if len(tokenizer) > embedded else ():
        tokens = row["input_ids"]
        if unknown := next((token for token in tokens if token >= embedded), None):
            raise SystemExit(
                f"Rows have the token {tokenizer.convert_ids_to_tokens(unknown)!r}, number {unknown}; the model "
                f"embeds {embedded:,} of the tokenizer's {len(tokenizer):,}: use the model's own tokenizer."
            )


class StopWithoutProgress(TrainerCallback):
    """End the training after so many evaluations without a better one, also those that are not saved.

    Never in the first pass over the rows, nor before there is a checkpoint to load. transformers' own callback counts
    against the best that was saved, and a resumed run counts anew.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs) -> None:
        self.on_evaluate(args, state, control)  # a resumed run may have had enough of them

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs) -> None:
        found = [logs[args.metric_for_best_model] for logs in state.log_history if args.metric_for_best_model in logs]
        best = max if args.greater_is_better else min
        late = (state.epoch or 0) >= 1 and state.best_model_checkpoint is not None
        if late and found and len(found) - 1 - found.index(best(found)) >= self.patience:
            control.should_training_stop = True


def first(rows: Dataset) -> Dataset:
    """Enough rows to judge by."""
    return rows.select(range(min(100, len(rows))))


class RunGuard(TrainerCallback):
    """Compares the run with its plan, tries a save before step one, stops on NaN, marks what is complete."""

    def __init__(self, trainer: Trainer, run: dict, anew: bool) -> None:
        self.trainer, self.run, self.anew = trainer, run, anew
        trainer.create_model_card = lambda **_: None  # TRL's has None for names: CARD takes its place
        self.train_loss = 0.0
        self.counted: dict[str, float] = {}  # of the rows; the first log has it
        self.began, self.tokens = 0.0, 0.0  # when the steps of the next log began, and the tokens of all before
        self.stepped = 0.0  # when the last step ended
        self.logged = 0  # step of the last log
        self.compared = 0  # the step at which the time of a step is compared with the plan

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        state.compute_steps(args, state.max_steps)  # of a checkpoint, they are those of the run that saved it
        facts = run_facts(self.trainer)
        if args.should_save:
            Path(args.output_dir, "facts.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            print("facts:", json.dumps(facts))
        compare_with_plan(facts)
        try_save(self.trainer)
        if args.should_save:
            forget_result(Path(args.output_dir), self.anew)
        self.began = self.stepped = time.monotonic()
        self.logged, self.compared = state.global_step, state.global_step + 20  # the first steps are slower

    def on_step_end(self, args, state, control, **kwargs) -> None:
        self.stepped = time.monotonic()

    def pause(self) -> None:
        """Leave out the time since the last step: something else than training took it."""
        now = time.monotonic()
        self.began, self.stepped = self.began + now - self.stepped, now

    def on_evaluate(self, args, state, control, **kwargs) -> None:
        self.pause()

    def on_log(self, args, state, control, logs, **kwargs) -> None:
        bad = [key for key in ("loss", "eval_loss") if not math.isfinite(float(logs.get(key, 0.0)))]
        if bad:
            raise RuntimeError(
                f"{bad[0]} is {logs[bad[0]]} at step {state.global_step}. Halve the learning rate, "
                "prefer bf16 to fp16, and look for empty or broken rows in the data."
            )
        measured = self.measure(logs, state) | self.counted
        self.counted = {}
        logs |= measured
        state.log_history[-1] |= measured  # where trainer_state.json has it from

    def measure(self, logs: dict, state: TrainerState) -> dict:
        """What the trainer does not log itself."""
        measured = {}
        if "loss" in logs:
            self.train_loss = logs["loss"]
            now, tokens = time.monotonic(), logs["num_tokens"] / self.trainer.args.world_size
            measured["tokens_per_second"] = (tokens - self.tokens) / (now - self.began)  # of each rank, no padding
            self.compare_time((now - self.began) / (state.global_step - self.logged), state)
            self.began, self.stepped, self.tokens, self.logged = now, now, tokens, state.global_step
            measured["peak_memory_gib"] = torch.accelerator.max_memory_allocated() / 2**30
        if "eval_loss" in logs and self.train_loss > 0:
            measured["train_eval_gap"] = (logs["eval_loss"] - self.train_loss) / self.train_loss
        return measured

    def compare_time(self, seconds: float, state: TrainerState) -> None:
        """Say once how the time of a step, of those since the last log, compares with the plan."""
        if self.logged < self.compared <= state.global_step and state.is_world_process_zero:
            print(f"Steps take {seconds / STEP_SECONDS:.2g} x the planned {STEP_SECONDS:.2g} s.")

    def on_save(self, args, state, control, **kwargs) -> None:
        self.trainer.accelerator.wait_for_everyone()  # until every rank has written its files
        if args.should_save:
            checkpoint = Path(args.output_dir, f"checkpoint-{state.global_step}")
            saved = [checkpoint.parent, *checkpoint.rglob("*")]
            write_whole(checkpoint / "run.json", self.run | {"files": sizes(checkpoint)}, saved)
        if state.best_global_step == state.max_steps:
            state.best_model_checkpoint = None  # the model has the best weights: none are loaded at the end
        self.pause()

    def finish(self) -> None:
        """Mark the saved result as whole: a later launch does not train it again."""
        if self.trainer.args.should_save:
            finished = self.run | {"result": secrets.token_hex(8)}  # a name of its own: two trainings may differ
            output_dir = Path(self.trainer.args.output_dir)
            shutil.copy(CARD, output_dir / "README.md")
            write_whole(output_dir / "finished.json", finished, result_files(output_dir))


def write_whole(marker: Path, run: dict, marked: list[Path]) -> None:
    """Write a marker once the disk holds what it marks: a machine that stops leaves a true one, or none."""
    unfinished = marker.with_suffix(".tmp")
    unfinished.write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    flush([*marked, unfinished])
    unfinished.replace(marker)
    flush([marker.parent])


def flush(paths: list[Path]) -> None:
    """Wait until the disk holds these files, and the names that folders give to theirs."""
    for path in paths:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        except OSError:  # some network file systems refuse it for folders
            if path.is_file():
                raise
        finally:
            os.close(opened)


def result_files(output_dir: Path) -> list[Path]:
    """The files of a result, but run.lock: to open and close it would end this process's lock."""
    return [path for path in output_dir.iterdir() if path.is_file() and path.name != "run.lock"]


def forget_result(output_dir: Path, anew: bool) -> None:
    """What an earlier run left is no result of this one; anew, its checkpoints are none to resume from either."""
    (output_dir / "finished.json").unlink(missing_ok=True)
    if anew:
        for checkpoint in checkpoints(output_dir):
            shutil.rmtree(checkpoint)


def run_facts(trainer: Trainer) -> dict:
    """What this process group really is; the libraries fall back silently, so nothing is taken for granted."""
    args, parameters = trainer.args, list(trainer.model.parameters())
    layers = [module for module in trainer.model.modules() if isinstance(module, GradientCheckpointingLayer)]
    recomputed = sum(layer.gradient_checkpointing for layer in layers)
    sharded = sum(hasattr(p, "device_mesh") or hasattr(p, "ds_tensor") for p in parameters)
    kind = trainer.accelerator.distributed_type.value  # NO, MULTI_GPU, FSDP, DEEPSPEED
    return {
        "distributed": "none" if kind == "NO" else "ddp" if kind.startswith("MULTI_") else kind.lower(),
        "wrapper": type(trainer.model_wrapped).__name__,
        "world_size": args.world_size,
        "global_batch_size": args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size,
        "shards_parameters": sharded > 0,
        "sharded_parameters": f"{sharded} of {len(parameters)}",
        "recomputed_layers": f"{recomputed} of {len(layers)}",
        "trainable_tensors": sum(p.requires_grad for p in parameters),
        "trainable_parameters": sum(getattr(p, "ds_numel", p.numel()) for p in parameters if p.requires_grad),
        "trains_in": ", ".join(sorted({str(p.dtype).removeprefix("torch.") for p in parameters if p.requires_grad})),
        "rows": len(trainer.train_dataset),
        "trained_tokens": trained_tokens(first(trainer.train_dataset)),
    }


def compare_with_plan(facts: dict) -> None:
    """Stop when the run is not the planned one; with OTHER_RANKS=1 another world size is only said."""
    asked = os.environ.get("OTHER_RANKS") == "1"
    for name, planned in PLANNED.items():
        if facts[name] == planned:
            continue
        message = f"{name} is {facts[name]}, and the plan has {planned}"
        if not (asked and name in ("world_size", "global_batch_size")):
            raise SystemExit(f"{message}. Start it as planned, or set OTHER_RANKS=1 to accept another world size.")
        print(f"{message}. The run goes on, as OTHER_RANKS is set.")


def try_save(trainer: Trainer) -> None:
    """Save the untrained model once and open what was written: a full disk should cost a minute, not a day."""
    folder = Path(trainer.args.output_dir, "save-test")
    trainer.save_model(str(folder), _internal_call=True)
    if trainer.args.should_save:
        tensors = 0
        for file in folder.glob("*.safetensors"):
            with safe_open(file, framework="pt") as saved:
                tensors += len(saved.keys())
        if not tensors:
            raise SystemExit(f"Saving wrote no weights into {folder}.")
        shutil.rmtree(folder)
