"""Disk and host memory: checkpoints, caches, and what loading and offload need of the CPU's memory."""

from __future__ import annotations

from msgspec import Struct

from recipec.axes.strategies import DEEPSPEED
from recipec.catalog.architecture import Architecture
from recipec.estimate.codepath import code_path
from recipec.estimate.device import GIB
from recipec.estimate.evaluation import stored_bytes
from recipec.estimate.head import loss_code
from recipec.estimate.loading import loading, teacher_read
from recipec.estimate.many_rows import RowOrder, prepared_row_bytes
from recipec.estimate.memory import MemoryEstimate
from recipec.estimate.sizes import sizes
from recipec.estimate.states import optimizer_states
from recipec.estimate.workload import Workload
from recipec.layout import Layout

PROCESS_BYTES = 3 * GIB  # Python, torch and CUDA libraries of one rank; our decision
SMALL_FILES_BYTES = 20 * (1 << 20)  # tokenizer, configuration, trainer state
# The text that a token stands for (benchmarks/results/preparation.md), and its copies: `datasets` keeps the rows as
# they are read, converted and looked at, prepare_data.py writes them, and `datasets` reads that again (5.1 of long
# documents, 4.8 of texts of 200 bytes, 6.0 of chats of 100 bytes, whose JSON weighs more; datasets 5.2, 2026-11).
TEXT_BYTES, TEXT_COPIES = 4.2, 5.1


class Storage(Struct, frozen=True):
    """Bytes on disk of one run."""

    checkpoint_bytes: int  # one resumable checkpoint
    reloaded_bytes: int  # of the best checkpoint, where an earlier one is: weights; DeepSpeed reads all of it
    tried_bytes: int  # the save that is tried before step 1: the weights as they train
    export_bytes: int  # the final model or adapter
    checkpoints_bytes: int  # all that are kept, the one being written, and what they all share
    dataset_cache_bytes: int
    prepared_bytes: int  # of these the rows that prepare_data.py writes; the others are in the cache of datasets
    hub_cache_bytes: int
    made_bytes: int  # the folders that text_part.py and vocabulary.py make of the model, in the bundle; 0: none
    packed_bytes: int  # the 4-bit base that ranks share, which quantize.py writes; 0 where none does
    trial_bytes: int  # what the save that is tried takes beyond the checkpoints and the result, which come after it
    total_bytes: int

    @property
    def outputs_bytes(self) -> int:
        """What the run needs below its output folder at the most."""
        return self.checkpoints_bytes + self.export_bytes + self.trial_bytes


class HostMemory(Struct, frozen=True):
    """host memory of one node."""

    needed_bytes: int
    per_gpu_bytes: int
    because: str


def run_storage(
    architecture: Architecture,
    layout: Layout,
    work: Workload,
    keep_checkpoints: int,
    dataset_tokens: int,
    downloaded_bytes: int | None = None,
    made_bytes: int = 0,
) -> Storage:
    """Disk that a run needs; the Hub cache holds 16-bit weights of all models where nothing is said.

    Beside the checkpoints that are kept there is one being written; a run that keeps none writes none.
    """
    export, checkpoint = export_bytes(architecture, layout, work), checkpoint_bytes(architecture, layout, work)
    kept = checkpoint * (keep_checkpoints + bool(keep_checkpoints)) + _elastic_file(architecture, layout, work)
    published = architecture.params + (work.teacher.params if work.teacher else 0)
    copies = work.method.copied_bytes * (layout.mesh.world_size - 1)
    token_bytes = TEXT_COPIES * TEXT_BYTES + work.method.cached_bytes + copies
    prepared = round(dataset_tokens * TEXT_BYTES)
    data, hub = round(dataset_tokens * token_bytes), 2 * published if downloaded_bytes is None else downloaded_bytes
    whole = layout.spreads.engine == DEEPSPEED
    trained = _trained_bytes(architecture, layout, work, code_path(layout, work).trained)
    reloaded, tried = checkpoint if whole else trained, trained + SMALL_FILES_BYTES
    packed = stored_bytes(architecture, layout, work) if layout.shares_packed else 0
    reloaded = reloaded if keep_checkpoints else 0
    trial = max(0, tried - kept - export)
    total = kept + export + trial + data + hub + made_bytes + packed
    return Storage(checkpoint, reloaded, tried, export, kept, data, prepared, hub, made_bytes, packed, trial, total)


def checkpoint_bytes(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """What a run resumes from: weights as they train, optimizer states, and small files.

    DeepSpeed writes the weights once more beside those of the Trainer, unless it shards them (ZeRO-1 and ZeRO-2 with
    bf16: 16.01 bytes a parameter, ZeRO-3: 14.01; DeepSpeed 0.19 with a Trainer on a CPU, 2026-11). A loop of train.py's
    own keeps what the engine writes, and nothing else.
    """
    trained = _trained_bytes(architecture, layout, work, code_path(layout, work).trained)
    twice = layout.spreads.engine == DEEPSPEED and not layout.spreads.shards_weights and not work.head
    return trained * (1 + twice) + _optimizer_file(architecture, layout, work) + 2 * SMALL_FILES_BYTES


def export_bytes(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """The result: an adapter as it trains, a full model in bf16 where it computes in bf16."""
    each = code_path(layout, work).trained
    served = min(each, 2) if layout.adapts.trains_all and layout.precision == "bf16" else each
    return _trained_bytes(architecture, layout, work, served) + SMALL_FILES_BYTES


def merged_bytes(architecture: Architecture, layout: Layout) -> int:
    """What merge_adapter.py writes: the whole model in the type that the base of the adapter was loaded in."""
    return architecture.params * (4 if layout.precision == "fp32" else 2)


def merging_host(architecture: Architecture, layout: Layout) -> HostMemory:
    """Host memory of merge_adapter.py, which has all that it writes there, and writes to nearly all of it."""
    weights = merged_bytes(architecture, layout)
    parts = f"1 process x {PROCESS_BYTES / GIB:.0f} GiB, {weights / GIB:.1f} GiB of weights"
    because = f"merge_adapter.py after training, which takes more than the training: {parts}"
    return HostMemory(PROCESS_BYTES + weights, PROCESS_BYTES + weights, because)


def preparing_host(rows: int) -> HostMemory:
    """Host memory of prepare_data.py, which one rank starts before any training."""
    held = prepared_row_bytes(rows)
    because = f"prepare_data.py, which takes more than the training: 1 process x {PROCESS_BYTES / GIB:.0f} GiB, "
    because += f"{held / GIB:.1f} GiB for {rows:,} rows"
    return HostMemory(PROCESS_BYTES + held, PROCESS_BYTES + held, because)


def _trained_bytes(architecture: Architecture, layout: Layout, work: Workload, bytes_each: int) -> int:
    """The weights that a save has: all of them, or the adapter's."""
    count = sizes(architecture, work.lora, loss_code(work).to_vocabulary)
    return (count.params if layout.adapts.trains_all else count.adapters + count.mixed) * bytes_each


def _elastic_file(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """The Fisher information and the starting weights, once for all checkpoints."""
    return 2 * _trained_bytes(architecture, layout, work, code_path(layout, work).trained) if work.elastic else 0


def _optimizer_file(architecture: Architecture, layout: Layout, work: Workload) -> int:
    """Optimizer states of all ranks, and DeepSpeed's fp32 masters."""
    count, path = sizes(architecture, work.lora, loss_code(work).to_vocabulary), code_path(layout, work)
    return round(optimizer_states(layout, count, path) + count.trainable * path.master)


def host_memory(
    architecture: Architecture,
    layout: Layout,
    work: Workload,
    gpus_per_node: int,
    step: MemoryEstimate,
    order: RowOrder | None = None,
) -> HostMemory:
    """Host memory of a node: processes, what `step` holds there, and the larger of two: the weights while they are
    loaded, or the order of the rows once training begins. Weights that are offloaded stay beside the order.

    Reward models, teachers that are whole on each device, and the models of vLLM take none: their files are mapped, and
    each tensor goes straight onto a device, so that the pages behind it are free again (`device_map` in transformers
    5.23 core_model_loading.py; vLLM's loader of safetensors). A copy of vLLM that sleeps on a training GPU drops its
    weights (TRL 1.16, sleep level 2), and one in processes of its own has those beside the ranks.
    """
    ranks = min(layout.mesh.world_size, gpus_per_node)
    reading, taught = loading(architecture, layout, work, ranks), teacher_read(layout, work)
    moved = step.host_bytes * ranks
    served = _server_processes(layout)
    needed = (ranks + served) * PROCESS_BYTES
    ordered, once = ranks * order.rank_bytes if order else 0, reading.once_bytes
    loads, trains = max(reading.peak_bytes, moved + max(once, taught)), moved + ordered + bool(moved) * once
    needed += max(loads, trains)
    reasons = [f"{ranks} process{'es' * (ranks != 1)} x {PROCESS_BYTES / GIB:.0f} GiB"]
    reasons += [f"{served} processes of vLLM x {PROCESS_BYTES / GIB:.0f} GiB"] if served else []
    because = reading.because
    if taught > reading.peak_bytes:
        because = f"{taught / GIB:.1f} GiB of the teacher's weights while they are loaded"
    reasons += [because] if because and (moved or loads >= trains) else []
    reasons += [order.because(ranks)] if order and ordered and trains > loads else []
    room = " (a third of it room for buffers, as DeepSpeed estimates)" if layout.offloads else ""
    reasons += [f"{moved / GIB:.1f} GiB offloaded{room}"] if moved else []
    return HostMemory(needed, round(needed / ranks), ", ".join(reasons))


def _server_processes(layout: Layout) -> int:
    """Of vLLM on GPUs of its own: one that answers requests, one that schedules, and one for each GPU.

    Source: vLLM docs/design/arch_overview.md, Process Count Summary (read 2026-11-29).
    """
    return 2 + layout.served_by if layout.served_by else 0
