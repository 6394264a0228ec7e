"""What can be simulated, and what a simulation leaves out."""

from __future__ import annotations

from recipec.axes.strategies import DEEPSPEED, TORCH_DDP
from recipec.estimate.workload import Workload
from recipec.layout import Layout


def obstacle(layout: Layout, work: Workload) -> str | None:
    """Why this run cannot be simulated; None when it can."""
    if layout.spreads.engine == DEEPSPEED:
        return f"{layout.strategy}: DeepSpeed's engine needs a device; only one device, DDP and FSDP2 are simulated"
    if layout.mesh.ranks_per_layer > 1:
        return "layers that are shared between ranks are not simulated"
    if layout.offloads:
        return "offload: the simulation knows one memory, the device's"
    if layout.fsdp and layout.optimizer not in ("adamw", "sgd"):
        return f"{layout.optimizer} over FSDP2 shards is not simulated"
    if work.lora and work.lora.dropout and work.lora.experts:
        return "adapters on fused experts refuse dropout (PEFT 0.21)"
    if not work.method.keeps_recomputation and (layout.recompute_interval > 1 or layout.activation_offload):
        return f"{work.method.title} recomputes every layer, from its input on the device, after its first pass"
    if work.elastic:
        return "train.ewc: the penalty of elastic weight consolidation is not simulated"
    if work.compiled:
        return "train.compile: what a compiled step keeps is not simulated"
    if work.method.generates:
        return f"{work.method.title} learns from answers that the model writes, and writing them is not simulated"
    if work.head:
        return "the loss head of another loop than the Trainer's is not simulated"
    if work.fp8:
        return "train.fp8: what products in FP8 keep is not simulated"
    foreign = _foreign(work)
    return f"not what an emitted train.py does: {', '.join(foreign)}" if foreign else None


def _foreign(work: Workload) -> list[str]:
    """Where the code path is another than that of an emitted train.py, whose knobs are a Workload's defaults; how it
    reads the weights is over before a step."""
    emitted = Workload(
        objective=work.objective,
        own=work.own,
        seq_len_tokens=work.seq_len_tokens,
        lora=work.lora,
        teacher=work.teacher,
        padded=work.padded,
        compiled=work.compiled,
        decays=work.decays,
        double_quant=work.double_quant,
        on_cpu=work.on_cpu,
        sync_each_batch=work.sync_each_batch,
        published=work.published,
        loads_itself=work.loads_itself,
    )
    return [name for name in Workload.__struct_fields__ if getattr(work, name) != getattr(emitted, name)]


def notes_of(layout: Layout, work: Workload) -> tuple[str, ...]:
    """The assumptions behind the numbers of a run, one sentence each."""
    notes = ["every position counts in the loss, and every batch has the full length: an upper bound"]
    if work.padded and layout.micro_batch * work.method.sequences_per_example > 1:
        notes.append("the rows of a batch differ in length, so attention gets a mask")
    if layout.fsdp:
        notes.append("FSDP2 runs without streams: buffers are freed where the host frees them")
    if layout.spreads.engine == TORCH_DDP:
        notes.append("DDP's buckets are counted as one copy of all gradients")
    if layout.precision == "fp16":
        notes.append("the gradient scaler is left out: it works in place")
    notes.append("weights are in the types that the formula takes from the emitted code")
    return (*notes, "kernels' own workspaces are left out: tens of MiB, and not at the peak where we looked")
