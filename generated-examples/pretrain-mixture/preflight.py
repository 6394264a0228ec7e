"""Checks around training: what the model learns from, whether this is the planned run, whether it can be resumed."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from datasets import Dataset
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.modeling_layers import GradientCheckpointingLayer

from rows import trained_text, trained_tokens

PLANNED = {
    "distributed": "deepspeed",
    "world_size": 8,
    "global_batch_size": 1024,
    "shards_parameters": False,
}
DISK_GIB = 1649.4  # predicted: checkpoints, one being written, the result; or the save tried before them


def check_devices() -> None:
    """Stop at once where the GPUs are not as planned: the libraries would go on without any, or with all at once."""
    if torch.accelerator.current_accelerator(check_available=True) is None:
        raise SystemExit(
            "This run is planned for 8 x h200, and PyTorch sees no GPU. "
            "Check the driver, and whether this build of torch is for the GPU."
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


def check_rows(rows: Dataset, tokenizer: PreTrainedTokenizerBase, shown: bool) -> dict[str, float]:
    """Show three rows as the model sees them; stop where they teach nothing; count for the log."""
    for row in rows.select(range(min(3, len(rows)))) if shown else ():
        print(f"{'-' * 100}\n{trained_text(row, tokenizer)}")
    counted = {"trained_tokens": trained_tokens(first(rows))}  # of these first rows
    if not counted["trained_tokens"]:
        raise SystemExit("The first rows have no trained token. Check the loss mask and the data.")
    return counted


def check_tokenizer(rows: Dataset, tokenizer: PreTrainedTokenizerBase, embedded: int) -> None:
    """Refuse rows with tokens that the model has no embedding for."""
    for row in rows if len(tokenizer) > embedded else ():
        if unknown := next((token for token in row["input_ids"] if token >= embedded), None):
            raise SystemExit(
                f"Rows have the token {tokenizer.convert_ids_to_tokens(unknown)!r}, number {unknown}; the model "
                f"embeds {embedded:,} of the tokenizer's {len(tokenizer):,}: use the model's own tokenizer."
            )


def first(rows: Dataset) -> Dataset:
    """Enough rows to judge by."""
    return rows.select(range(min(100, len(rows))))


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


def model_facts(model: nn.Module) -> dict:
    """What is trained, and how; the libraries fall back silently, so nothing is taken for granted."""
    parameters = list(model.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    return {
        "wrapper": type(model).__name__,
        "shards_parameters": False,
        "sharded_parameters": f"0 of {len(parameters)}",
        "recomputed_layers": f"{sum(layer.gradient_checkpointing for layer in layers)} of {len(layers)}",
        "trainable_tensors": len(trained),
        "trainable_parameters": sum(parameter.numel() for parameter in trained),
        "trains_in": ", ".join(sorted({str(parameter.dtype).removeprefix("torch.") for parameter in trained})),
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


def try_save(save: Callable[[Path], None], output_dir: Path, rank: int) -> None:
    """Save the untrained model once and open what was written: a full disk should cost a minute, not a day."""
    folder, tensors = output_dir / "save-test", 0
    save(folder)
    if rank:
        return
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as saved:
            tensors += len(saved.keys())
    if not tensors:
        raise SystemExit(f"Saving wrote no weights into {folder}.")
    shutil.rmtree(folder)
