"""Figures of rule book 001's decision tree: what fits under each of its thresholds. Its examples are 7B models."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.axes.adaptations import FULL, LORA, QLORA
from recipec.estimate.device import ASSUMED
from recipec.estimate.memory import largest_that_fits
from recipec.figures.figure import Figure, Ours, at_most, between, figure
from recipec.figures.trainings import Training, card_gb

_TREE = "docs/rule-books/001.md, Decision tree: available compute"
_RULES = ("ADPT-001",)
_QLORA_FIRST = (
    "tries LoRA before QLoRA here too; QLoRA comes first on a first training, or where the recipe puts memory first"
)
_LORA_FIRST = "tries LoRA first, and takes QLoRA where LoRA does not fit"
_FULL_LATER = (
    "tries LoRA first here; full fine-tuning comes first with more than 100,000 rows, from 10,000 rows on for a new "
    "domain or for a first training with priority `quality`, and for methods that prefer it"
)
_SOLVES = "takes the smallest micro batch within 2% of the fastest that fits and divides the global batch"
MOST_SEQUENCES = 512


@figure("FIG-135", "Under 16 GB: QLoRA", at_most(16, "GB"), book=_TREE, does=_QLORA_FIRST, rules=_RULES)
def qlora_branch() -> Ours:
    """7B and 13B fit; a threshold in GB says nothing of larger models."""
    large = card_gb(Training("34B", QLORA))
    return Ours(card_gb(Training("7B", QLORA)), f"peak on the card: {Training('7B', QLORA)}; 34B needs {large:.1f} GB")


@figure("FIG-136", "16-48 GB: LoRA on a bf16 base", between(16, 48, "GB"), book=_TREE, does=_LORA_FIRST, rules=_RULES)
def lora_branch() -> Ours:
    """7B and 13B fit; larger models do not."""
    large = card_gb(Training("34B", LORA))
    return Ours(card_gb(Training("7B", LORA)), f"peak on the card: {Training('7B', LORA)}; 34B needs {large:.1f} GB")


@figure("FIG-137", "48-160 GB: full fine-tuning", at_most(48, "GB"), book=_TREE, does=_FULL_LATER, rules=_RULES)
def full_branch() -> Ours:
    """It would have to fit from 48 GB on. 7B fits from about the middle of the range on, and 13B nowhere in it."""
    large = card_gb(Training("13B", FULL))
    return Ours(card_gb(Training("7B", FULL)), f"peak on the card: {Training('7B', FULL)}; 13B needs {large:.0f} GB")


def _batch(id: str, states: str, stated: tuple[int, int], job: Training, gpu_gib: float, why: str) -> Figure:
    """The batch size of a branch, on the largest card of it."""

    def largest() -> Ours:
        batches = [replace(job.layout, micro_batch=size) for size in range(1, MOST_SEQUENCES + 1)]
        fits, _ = largest_that_fits(job.architecture, batches, job.work, ASSUMED.allocatable_bytes(gpu_gib, 1))
        return Ours(fits.micro_batch, f"largest micro batch that fits {gpu_gib:g} GiB, from one sequence up: {job}")

    largest.__doc__ = why
    return figure(id, states, between(*stated, "sequences"), book=_TREE, does=_SOLVES)(largest)


_MORE = "Recomputed activations and a loss in chunks leave room for more sequences than the book thinks."
BATCHES = [
    _batch("FIG-138", "Under 16 GB: batch size 1-2", (1, 2), Training("7B", QLORA), 16, _MORE),
    _batch("FIG-139", "16-48 GB: batch size 2-8", (2, 8), Training("7B", LORA), 48, _MORE),
]
