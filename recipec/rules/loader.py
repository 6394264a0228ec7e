"""How rows reach the GPU."""

from __future__ import annotations

from recipec.rules.core import Choice, rule
from recipec.rules.defaults import method_of
from recipec.units import counted


@rule(
    "LOAD-001",
    decides="dataloader_workers",
    watch="samples_per_second: rises with more workers only while the GPU waits for data",
    source="rule book 001, Data Pipeline Architecture (4-8), Anti-Pattern 4, CPU/RAM Guidelines; 004, Anti-Patterns",
)
def dataloader_workers(cores_per_gpu: int | None) -> Choice:
    """Decides how many processes prepare batches for one GPU: its cores, at most 8.

    001 says 4 to 8 and "match CPU count per GPU", of which it recommends 8 to 16; 004 says more than 0. With fewer
    than 4 cores per GPU the cores win over the range, because idle workers take turns. Unknown cores: 4.
    """
    if cores_per_gpu is None:
        return Choice(4, "the cores per GPU are not stated; the lower end of 4 to 8 is taken", accepts=(1, 16))
    workers = max(1, min(cores_per_gpu, 8))
    cores = counted(cores_per_gpu, "core")
    return Choice(workers, f"there are {cores} per GPU, and more than 8 workers gain nothing", accepts=(1, 16))


@rule(
    "LOAD-002",
    decides="prefetch_factor",
    watch="samples_per_second: steady; dips at every step mean that batches arrive late",
    source="rule book 001, Anti-Pattern 4 (Enable prefetch_factor)",
)
def prefetch_factor() -> Choice:
    """Decides how many batches each worker prepares ahead: 2.

    001 asks to enable it. Two are PyTorch's own default; token batches are small and tokenised before training, so
    more would only hold memory. It is written out because it is None without workers.
    """
    return Choice(2, "rows of tokens are small, so more batches ahead would only hold memory", accepts=(1, 16))


@rule(
    "LOAD-003",
    decides="pin_memory",
    watch="samples_per_second, peak_memory_gib: pinned pages speed copies up and take no GPU memory",
    source="rule book 004, Best Practices (pin_memory); 001, Anti-Pattern 4",
)
def pin_memory(gpu_is_cpu: bool) -> Choice:
    """Decides whether batches lie in page-locked memory: yes where they are copied to a GPU.

    Pinned pages let the copy overlap with the computation. On a CPU there is no copy and PyTorch warns about it.
    """
    if gpu_is_cpu:
        return Choice(False, "batches are not copied to a GPU")
    return Choice(True, "batches are copied to a GPU, and pinned pages let the copy overlap with computation")


@rule(
    "LOAD-004",
    decides="persistent_workers",
    watch="samples_per_second: no pause at the start of an epoch or after an evaluation",
    source="rule book 001, Anti-Pattern 4 (long idle times between steps)",
)
def persistent_workers(dataloader_workers: int) -> Choice:
    """Decides whether workers outlive an epoch: yes wherever there are workers.

    Starting processes anew at every epoch and evaluation is one of the idle times that 001 lists. With 0 workers
    PyTorch refuses the setting.
    """
    if dataloader_workers == 0:
        return Choice(False, "there are no workers to keep")
    return Choice(True, "workers that live through the run are started once")


@rule(
    "LOAD-005",
    decides="sampling",
    watch="eval_loss, loss: loss rises and falls with the lengths of its batches, so eval_loss tells how training goes",
    source="rule book 001, Anti-Pattern 4 (unified padding for variable-length sequences); transformers 5.23 "
    "LengthGroupedSampler",
)
def sampling(stage: str, packing: bool) -> Choice:
    """Decides the order of the examples: those of like length together, unless sequences are packed.

    Unpacked examples are padded to the longest of their batch. In random order half of a batch of chats is padding;
    with examples of like length together little is. The first batch then holds the longest example of all, so that a
    run that does not fit fails in its first step and not after hours. The price is a training loss that rises and
    falls within every 50 batches, because short answers are harder per token; the evaluation loss does not.
    The pinned DPOTrainer does not hand lengths to its sampler: its pairs come in random order, and the longest batch is
    tried once before step 1. A trainer that relates the rows of a batch to each other before training keeps the order
    of the file, so preparation shuffles the rows, and every epoch has the same batches.
    """
    method = method_of(stage)
    if packing:
        return Choice("random", "packed sequences all have one length")
    return Choice(method.sampling, method.sampling_because)
