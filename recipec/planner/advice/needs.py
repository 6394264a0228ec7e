"""What a stage needs of the node around its GPUs: host memory, cores for the data loader, disk, and its links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from recipec.axes import Method
from recipec.catalog.models import Model
from recipec.estimate.basis import basis_of
from recipec.estimate.evaluation import Answered, Evaluation, GpuRoom, evaluation_needs
from recipec.estimate.experts import published_bytes
from recipec.estimate.loading import first_reads, read_bytes, reference_under_fsdp
from recipec.estimate.overhead import overhead_of
from recipec.estimate.storage import (
    HostMemory,
    Storage,
    host_memory,
    merged_bytes,
    merging_host,
    preparing_host,
    run_storage,
)
from recipec.estimate.whole_run import rates_of, written_seconds
from recipec.estimate.workload import Workload
from recipec.facts import Facts
from recipec.facts.model import is_path
from recipec.planner.plan import Needs
from recipec.planner.search.candidates import Candidate, usable_bytes
from recipec.planner.search.preference import waiting_share
from recipec.planner.search.workload import order_of, work_of
from recipec.rules.core import Ledger
from recipec.rules.evaluation import looked_at, prepared_rows, read_rows, training_tokens
from recipec.rules.intervals import saves_in, steps_taught
from recipec.units import GIB


def needs_of(facts: Facts, ledger: Ledger, chosen: Candidate, asked_tokens: int | None) -> Needs:
    """The needs of the chosen layout; the ledger is settled, checkpoints included.

    `asked_tokens` are those of an answer that the recipe wants of evaluate.py; None: as many as in training.
    """
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    shape, work = facts.model.architecture, work_of(ledger, facts)
    tokens = round(prepared_rows(value) * training_tokens(value) * work.method.sequences_per_example)
    first = fetches_model(facts, value)
    downloaded = sum(map(_file_bytes, _downloaded(facts, work.method, first)))
    saves = saves_in(value["eval_every"], value["save_every"], value["total_steps"], steps_taught(value))
    kept = min(value["keep_checkpoints"], max(0, saves - 1))
    storage = run_storage(shape, chosen.layout, work, kept, tokens, downloaded, _made_bytes(facts, first))
    merges = chosen.layout.adapts.merges
    merged, merging = merged_bytes(shape, chosen.layout) if merges else 0, merging_host(shape, chosen.layout)
    rows = looked_at(value, "test")
    per_node = facts.machines.gpus_per_node
    training = host_memory(shape, chosen.layout, work, per_node, chosen.memory, order_of(ledger))
    last = value["stage"] == value["stages"][-1]
    on_host = training if last or not merges else _larger(training, merging)
    on_host = _larger(on_host, preparing_host(read_rows(value)))
    beside = [*([work.teacher] if work.teacher else []), *work.judges]
    return Needs(
        read_bytes=read_bytes(shape, work) + sum(map(published_bytes, beside)),
        reference_under_fsdp=reference_under_fsdp(chosen.layout, work),
        first_reads=first_reads(shape, chosen.layout, work, min(chosen.layout.mesh.world_size, per_node)),
        storage=storage if last else _with_merged(storage, merged),
        saving_seconds=_saving_seconds(storage, facts),
        merged_bytes=merged,
        merging_bytes=merging.needed_bytes if merges else 0,
        host=_on_cpu(chosen, per_node) if value["gpu_is_cpu"] else on_host,
        evaluation=_evaluation(facts, chosen, work, Answered(rows, asked_tokens)),
        loader_cores_per_gpu=value["dataloader_workers"],
        waiting_share=waiting_share(chosen),
        basis=basis_of(facts.gpu, chosen.layout, facts.machines) if facts.gpu.measured else None,
    )


def _saving_seconds(storage: Storage, facts: Facts) -> float:
    longest = max(storage.tried_bytes, storage.checkpoint_bytes if storage.checkpoints_bytes else 0)
    return written_seconds(longest, rates_of(facts.gpu.measured))


def _evaluation(facts: Facts, chosen: Candidate, work: Workload, answered: Answered) -> Evaluation:
    """On as many GPUs of one node as the stage has ranks there, which is how many the launch script starts it on."""
    gpu, ranks = facts.gpu, min(chosen.layout.mesh.world_size, facts.machines.gpus_per_node)
    room = GpuRoom(usable_bytes(gpu, 1), overhead_of(gpu).allocatable_bytes(gpu.memory_gib, 1))
    shape, on_cpu = facts.model.architecture, gpu.kind == "cpu"
    return evaluation_needs(shape, chosen.layout, work, room, ranks, on_cpu, answered)


def fetches_model(facts: Facts, value: Mapping[str, Any]) -> bool:
    """Whether the stage is the first of the run that reads the recipe's model."""
    return bool(value["stage"] == value["stages"][0]) and not facts.model_is_there


def _downloaded(facts: Facts, method: Method, first: bool) -> list[Model]:
    """The models whose weights come from the Hub: neither random ones nor a folder's, nor what a stage before has."""
    own = [] if method.random_weights or not first else [facts.model]
    judges = [judge.model for judge in facts.rewards.models] if method.generates else []
    models = [*own, *(facts.others[role].model for role in method.named_models), *judges]
    return [model for model in models if not is_path(model.name)]


def _file_bytes(model: Model) -> int:
    """Of a checkpoint of the Hub, with what it holds beside the language model."""
    return published_bytes(model.architecture) + 2 * (model.params_on_disk - model.architecture.params)


def _made_bytes(facts: Facts, first: bool) -> int:
    """What text_part.py and vocabulary.py write into the bundle: the whole model, each of them."""
    scripts = (facts.model.stored is not None) + bool(facts.new_tokens)
    return 2 * facts.model.architecture.params * scripts if first else 0


def _with_merged(storage: Storage, merged: int) -> Storage:
    """The next stage starts from the merged model, which lies beside the adapter."""
    return replace(storage, export_bytes=storage.export_bytes + merged, total_bytes=storage.total_bytes + merged)


def _larger(training: HostMemory, merging: HostMemory) -> HostMemory:
    """Of two moments the one that takes more."""
    return max(training, merging, key=lambda moment: moment.needed_bytes)


def _on_cpu(chosen: Candidate, per_node: int) -> HostMemory:
    """The CPU is the device: its memory holds the training itself."""
    peak, ranks = chosen.memory.peak_device_bytes, min(chosen.layout.mesh.world_size, per_node)
    processes = f"{ranks} process{'es' * (ranks != 1)}"
    return HostMemory(ranks * peak, peak, f"{processes} x {peak / GIB:.1f} GiB")
