"""Label smoothing of dense models: all logits of a micro batch at once and a further forward pass, beside the plan."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label
from recipec.estimate.codepath import code_path
from recipec.estimate.optimizers import FP32_BYTES
from recipec.planner.advice.arguments import SMOOTHING, given_at
from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe
from recipec.units import gib

# Alive when `LabelSmoother` sums them (transformers 5.23 trainer_pt_utils.py): the logits, those of all tokens but the
# last, their log-softmax and its negation.
_COPIES = 4


def label_smoothing(loaded: LoadedRecipe, model: Model, stage: StagePlan) -> Iterator[Diagnostic]:
    """Yield W0563 with the least that the logits take, where the recipe smooths labels."""
    (name,) = SMOOTHING
    if not stage.verbatim.get(name):
        return
    logits = stage.layout.micro_batch * stage.work.seq_len_tokens * model.architecture.vocab_size
    needed = _COPIES * _logit_bytes(stage) * logits
    label = Label(
        loaded.place(*given_at(loaded, stage, name), part="key"),
        f"the logits of a micro batch then take at least {gib(needed)} per GPU",
    )
    free = stage.usable_bytes - stage.memory.peak_allocated_bytes
    help = (
        "lower `train.micro_batch_size` or `data.max_length`, or remove the argument",
        'if the memory suffices, write allow = ["W0563"] under [recipe]',
    )
    notes = (
        f"the plan counts tiles of the logits, and leaves {gib(free)} of the usable memory free; label smoothing needs "
        "all logits at once, and TRL then makes a second forward pass for its metrics, which the plan does not time "
        "(TRL 1.16 trainer/sft_trainer.py:1601)",
    )
    yield Diagnostic("W0563", f"`{name}` takes memory that the plan does not count", (label,), help, notes)


def _logit_bytes(stage: StagePlan) -> int:
    """Accelerate casts what a model returns under autocast to fp32; DeepSpeed and FSDP2 return what was computed."""
    path = code_path(stage.layout, stage.work)
    return FP32_BYTES if path.autocast else path.compute
