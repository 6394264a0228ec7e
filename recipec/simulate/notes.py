"""What can be simulated, and what a simulation leaves out."""

from __future__ import annotations

from dataclasses import fields

from recipec.axes.strategies import DEEPSPEED, TORCH_DDP
from recipec.catalog.architecture import Architecture
from recipec.estimate.work import Work
from recipec.layout import Layout

_EMITTED = Work()  # its knobs are what an emitted train.py does
_FOLLOWED = {"objective", "seq_len_tokens", "lora", "teacher", "padded", "compiled", "decays", "double_quant"}
_FOLLOWED |= {"sync_each_batch"}


def obstacle(architecture: Architecture, layout: Layout, work: Work) -> str | None:
    """Why this run cannot be simulated; None when it can."""
    if layout.spreads.engine == DEEPSPEED:
        return f"{layout.strategy}: DeepSpeed's engine needs a device; only one device, DDP and FSDP2 are simulated"
    if layout.mesh.ranks_per_layer > 1:
        return "layers that are shared between ranks are not simulated"
    if layout.offload != "none":
        return "offload: the simulation knows one memory, the device's"
    if layout.fsdp and layout.optimizer not in ("adamw", "sgd"):
        return f"{layout.optimizer} over FSDP2 shards is not simulated"
    if work.lora and work.lora.dropout and architecture.moe and work.lora.targets == "all-linear":
        return "adapters on fused experts refuse dropout (PEFT 0.21)"
    if work.compiled:
        return "train.compile: what a compiled step keeps is not simulated"
    names = (field.name for field in fields(Work) if field.name not in _FOLLOWED)
    foreign = [name for name in names if getattr(work, name) != getattr(_EMITTED, name)]
    return f"not what an emitted train.py does: {', '.join(foreign)}" if foreign else None


def notes_of(layout: Layout, work: Work) -> tuple[str, ...]:
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
