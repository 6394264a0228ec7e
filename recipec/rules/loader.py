"""How rows reach the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.axes.method import SIMILAR
from recipec.rules.core import Choice, rule
from recipec.rules.defaults import method_of
from recipec.units import counted

FEWEST_WORKERS = 4  # docs/rule-books/001.md, Step 4: 4 to 8 for each GPU


@rule(
    "LOAD-001",
    decides="dataloader_workers",
    trains=False,
    watch="tokens_per_second: near the plan; more workers help only while the GPU is idle between steps",
    source="docs/rule-books/001.md, Step 4; Data pipeline architecture; Anti-pattern 4; CPU/RAM guidelines; "
    "docs/rule-books/004.md, Implementation checklist",
)
def dataloader_workers(
    cores_per_gpu: int | None,
    host_cores: int | None = None,
    gpus_per_node: int = 1,
    gpu_is_cpu: bool = False,
    stage: str | None = None,
) -> Choice:
    """Data loader workers per GPU: one per CPU core, at most 8.

    Rule book 001 uses 4 to 8 workers, as many as the CPU cores of a GPU, and recommends 8 to 16 cores. Rule book 004
    wants more than 0. With fewer than 4 cores per GPU the cores decide, because more workers than cores take turns.
    Where the recipe does not state the cores, recipec takes 4, or as many as a usual machine with such GPUs has for
    each of them where these are fewer; state `hardware.cpu_cores`. A run on a CPU whose cores are not stated gets 1,
    because the training itself takes the cores. A trainer whose batches are a few prompts, which it reads in its own
    process, has none.
    """
    if stage and not method_of(stage).uses_loader:
        return Choice(0, "a batch is a few prompts, which the trainer reads in its own process", accepts=(0, 0))
    if cores_per_gpu is None and gpu_is_cpu:
        return Choice(1, "the number of CPU cores is not stated, and the training itself takes them", accepts=(1, 16))
    if cores_per_gpu is None:
        usual = FEWEST_WORKERS if host_cores is None else max(1, host_cores // gpus_per_node)
        if usual < FEWEST_WORKERS:
            cores = counted(usual, "core")
            return Choice(usual, f"CPU cores are not stated, and {cores} for each GPU are usual", accepts=(1, 16))
        return Choice(
            FEWEST_WORKERS,
            "the number of CPU cores is not stated, so the low end of 4 to 8 is taken",
            accepts=(1, 16),
        )
    workers = max(1, min(cores_per_gpu, 8))
    cores = counted(cores_per_gpu, "CPU core")
    return Choice(workers, f"each GPU has {cores}, and more than 8 workers gain nothing", accepts=(1, 16))


@rule(
    "LOAD-002",
    decides="prefetch_factor",
    trains=False,
    watch="tokens_per_second: steady; regular dips mean that batches arrive late",
    source="docs/rule-books/001.md, Anti-pattern 4 (prefetch_factor); torch 2.13 utils/data/dataloader.py",
)
def prefetch_factor() -> Choice:
    """Batches that each data loader worker prepares ahead: 2.

    Rule book 001 turns `prefetch_factor` on and gives no number. 2 is PyTorch's default with workers. Batches are
    tokenized before training and small, so more of them would only hold memory.
    """
    return Choice(2, "tokenized batches are small, so more of them ahead would only hold memory", accepts=(1, 16))


@rule(
    "LOAD-003",
    decides="pin_memory",
    trains=False,
    watch="tokens_per_second, peak_memory_gib: near the plan; pinned memory is host memory and takes no GPU memory",
    source="docs/rule-books/004.md, Anti-patterns; Implementation checklist",
)
def pin_memory(gpu_is_cpu: bool) -> Choice:
    """Pinned (page-locked) memory for batches: on with a GPU, off on a CPU.

    Rule book 004 names it against slow data loading. Pinned memory lets the copy to the GPU overlap with computation.
    On a CPU there is no copy, and PyTorch warns about the setting.
    """
    if gpu_is_cpu:
        return Choice(False, "batches are not copied to a GPU")
    return Choice(True, "pinned memory lets the copy of a batch to the GPU overlap with computation")


@rule(
    "LOAD-004",
    decides="persistent_workers",
    trains=False,
    watch="tokens_per_second: only a short pause at the start of an epoch and of an evaluation",
    source="docs/rule-books/001.md, Anti-pattern 4 (idle times between steps); torch 2.13 utils/data/dataloader.py",
)
def persistent_workers() -> Choice:
    """Persistent workers: data loader processes start again at every epoch and evaluation.

    Kept workers would spare that pause of about a second, which rule book 001 counts as an idle time between steps.
    They cost exact resumes. PyTorch draws one random number whenever it starts the workers. A run that keeps them draws
    once, and a resumed run once more in its next epoch: from there on its dropout is another, and it ends with other
    weights. A method that answers its prompts itself would also ask held-out prompts in another order each time.
    """
    return Choice(False, "with kept workers a resumed run would draw other random numbers, and end with other weights")


@rule(
    "LOAD-005",
    decides="sampling",
    key="train.sampling",
    watch="loss, eval_loss: the training loss varies with the length of its batch, so judge by eval_loss",
    source="docs/rule-books/001.md, Anti-pattern 4 (padding of variable-length sequences); transformers 5.23 "
    "trainer_pt_utils.py (get_length_grouped_indices, which draws another order after a resume)",
)
def sampling(stage: str, packing: bool) -> Choice:
    """Sampling order: examples of similar length in one batch, unless sequences are packed.

    Rule book 001 names unified padding for sequences of different lengths. Examples that are not packed are padded to
    the longest of their batch. In random order half of a batch of chats is padding; with similar lengths little is. The
    first batch holds the longest example, so a run that does not fit fails in its first step and not after hours.

    The bundle brings the sampler, `similar_lengths.py`. It groups the rows that all ranks take in one micro step. The
    groups come in random order, so an optimizer step of several micro steps mixes lengths. A step of one micro step has
    rows of one length, and a token of a short row weighs many times one of a long row (18 times in rows of 400 and
    3,000 tokens, 5 times with two micro steps): a smaller `train.micro_batch_size` mixes them, and
    `train.sampling = "random"` takes rows as they come, with the padding that this costs in the plan.

    Every epoch has another order, which depends only on the seed and the epoch. A resumed run therefore trains on
    exactly the rows that are left. The sampler of transformers 5.23 draws from a random state that checkpoints do not
    have: a resumed run would skip rows and repeat others. It also walks from long examples to short ones, again and
    again, and the training loss with it.

    DPOTrainer cannot group by length. Its pairs come in random order, and the bundle tries the longest batch once
    before step 1. A trainer that relates the rows of a batch to each other before training keeps the order of the file:
    preparation shuffles the rows once, and every epoch has the same batches. Where the recipe has a curriculum,
    prepare_data.py puts the rows from easy to hard, and every trainer keeps the order of the file.
    """
    method = method_of(stage)
    if packing:
        return Choice("random", "packed sequences all have the same length")
    return Choice(method.sampling, method.sampling_because)


_EASY_FIRST = "Curriculum Learning: A Survey (arXiv 2101.10382, 2021); docs/rule-books/000.md, Description"
_PARTS_TOLD = "loss: steps up where a harder part of the rows begins, so judge by eval_loss"


@rule("LOAD-006", decides="curriculum_by", key="train.curriculum.by", watch=_PARTS_TOLD, source=_EASY_FIRST)
def curriculum_by() -> Choice:
    """What makes a row hard where no column says it: the number of its tokens.

    Rows are ordered only where the recipe has a curriculum. Length is a rough measure of how hard a row is. It costs
    nothing, and rows of one part then need little padding.
    """
    return Choice("length", "longer rows count as harder")


@rule("LOAD-007", decides="curriculum_column", key="train.curriculum.column", watch=_PARTS_TOLD, source=_EASY_FIRST)
def curriculum_column() -> Choice:
    """The column that says how hard a row is, where the recipe names one.

    Every training row needs a number in it, higher for harder rows. A loss of the base model, a human grade or the
    share of failed attempts are usual. prepare_data.py refuses rows without a number by their place.
    """
    return Choice("", "only a recipe can name a column")


@rule("LOAD-008", decides="curriculum_parts", key="train.curriculum.parts", watch=_PARTS_TOLD, source=_EASY_FIRST)
def curriculum_parts() -> Choice:
    """Into how many parts the rows of a curriculum are cut, from easy to hard.

    With as many parts as rows the order would be strict: neighbors would be alike in whatever makes them easy, and
    every step would see one kind of row. With few parts little of the order is left. recipec takes ten. Inside a
    part the order is random. Every epoch goes from easy to hard anew, with the same batches.
    """
    return Choice(10, "each step still sees rows of many kinds")


def by_chance(value: Mapping[str, Any]) -> bool:
    """Whether chance puts short and long rows into a batch, from the decisions of a stage: neither packed sequences nor
    rows of like length, which the parts of a curriculum have, too."""
    return not (value["packing"] or value["sampling"] == SIMILAR or "curriculum_by" in value)


def node_cores(value: Mapping[str, Any]) -> int:
    """The cores of a node that the plan counts on, from the decisions of a stage: to prepare rows and to load them."""
    each = max(FEWEST_WORKERS, 1 + value["dataloader_workers"])  # a GPU's process and its workers
    return int(value["host_cores"] or each * value["gpus_per_node"])


MANY_TOKENS = 20_000_000  # our decision: one process takes half a minute for them, while the GPUs wait
MOST_PROCESSES = 64  # our decision: each is a copy of the trainer and writes a part of the rows


def tokenizing_processes(value: Mapping[str, Any]) -> int:
    """The processes in which the trainer of the first rank tokenizes, from the decisions of a stage: one for each core
    of its node, which has nothing else to do then. Where the cores are not known, one for each loader's worker. Methods
    that write the answers themselves tokenize prompts as they go.
    """
    few = value["examples"] * value["tokens_per_example"] < MANY_TOKENS
    if few or value["gpu_is_cpu"] or method_of(value["stage"]).generates:
        return 1
    cores = value["host_cores"] or value["dataloader_workers"] * value["gpus_per_node"]
    return max(1, min(cores, MOST_PROCESSES))
