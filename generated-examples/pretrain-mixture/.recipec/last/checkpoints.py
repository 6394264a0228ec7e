"""What a resumed run goes on from, and the result. The engine's states are shared out: all ranks save and load them."""

import json
import shutil
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from deepspeed import DeepSpeedEngine
from torch import distributed
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from experts import whole_weights
from preflight import checkpoints

STATES = "states"  # the folder of a checkpoint in which the engine keeps its shards
STATE = "trainer_state.json"  # the name and the keys of the Trainer, for whoever reads its log


@dataclass
class Progress:
    """Where a run is. The rows and the dropout of a step follow from its number, so that no random state is kept."""

    global_step: int = 0
    epoch: float = 0.0
    num_tokens: int = 0
    best_metric: float | None = None  # the lowest eval_loss that has a checkpoint
    best_global_step: int = 0
    log_history: list[dict[str, float]] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        (folder / STATE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def saved_in(cls, folder: Path) -> "Progress":
        """What a checkpoint says; one of an older train.py may have further fields, which nothing reads any more."""
        saved = json.loads((folder / STATE).read_text(encoding="utf-8"))
        return cls(**{known.name: saved[known.name] for known in fields(cls)})


def save_checkpoint(folder: Path, engine: DeepSpeedEngine, progress: Progress) -> None:
    """Everything that the next step depends on. The caller marks the folder as whole afterwards."""
    engine.save_checkpoint(str(folder), tag=STATES, save_latest=False)
    if distributed.get_rank() == 0:
        progress.write(folder)


def load_checkpoint(folder: Path, engine: DeepSpeedEngine) -> Progress:
    """Go back to what was saved: weights, their fp32 masters, the optimizer and the schedule."""
    loaded, _ = engine.load_checkpoint(str(folder), tag=STATES)
    if loaded is None:
        raise SystemExit(f"DeepSpeed finds no checkpoint in {folder / STATES}. Resume from another one.")
    return Progress.saved_in(folder)


def delete_old(output_dir: Path, keep: int, best: int) -> None:
    """Keep the newest, which a resumed run needs, and the best, which becomes the result."""
    found = checkpoints(output_dir)
    kept = [folder for folder in found if folder.name == f"checkpoint-{best}"]
    kept += [folder for folder in found if folder not in kept][: keep - len(kept)]
    for folder in found:
        if folder not in kept:
            shutil.rmtree(folder)


def save_result(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """The model, or the adapter, as others load it, with its tokenizer. All ranks bring their share of the weights."""
    weights = whole_weights(model)
    if distributed.get_rank() == 0:
        model.save_pretrained(folder, state_dict=weights)
        tokenizer.save_pretrained(folder)
