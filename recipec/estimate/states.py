"""What is resident on a rank through the whole step, and what CPU offload moves to the host."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.strategies import DEEPSPEED
from recipec.estimate.codepath import CodePath
from recipec.estimate.judges import judge_bytes
from recipec.estimate.optimizers import FP32_BYTES, STATES
from recipec.estimate.sizes import Sizes
from recipec.estimate.teacher import Teacher
from recipec.estimate.workload import Workload
from recipec.layout import Layout

# What DeepSpeed 0.19 adds for buffers by an estimate of its own, which no run is cited for (stage3.py,
# estimate_zero3_model_states_mem_needs: `additional_buffer_factor`, "estimation factor"); read 2026-11. Nobody
# measured it for recipec.
OFFLOAD_PINNED_COPIES = 1.5
SUB_GROUP = 1e9  # weights of a rank that ZeRO-3 updates together (DeepSpeed 0.19 runtime/zero/config.py, its default)


class States(Struct, frozen=True):
    """Bytes per rank."""

    terms: dict[str, float]  # resident at all times
    gradients: float  # all gradients of this rank, once they exist
    accumulated: float  # gradients of earlier micro steps while the last one runs
    step_gradients: float  # additional copy during the optimizer step
    temporaries: float  # of the optimizer step
    host: float


def states(layout: Layout, work: Workload, sizes: Sizes, path: CodePath, teacher: Teacher | None) -> States:
    """Weights, masters, optimizer states and gradients of one rank."""
    full = layout.adapts.trains_all
    weights = (sizes.params - sizes.elsewhere) * path.trained / path.weight_shards if full else _frozen(sizes, path)
    kept = sizes.params * path.trained if work.elastic else 0.0  # both in the type of the weights, on every rank
    beside = sizes.adapters + sizes.originals + sizes.mixed
    terms = {
        "weights": weights,
        "adapters": 0.0 if full else beside * path.trained / path.weight_shards,
        "master_weights": sizes.trainable * path.master / path.state_shards,
        "optimizer_states": optimizer_states(layout, sizes, path) / path.state_shards,
        "reference_model": weights if _keeps_reference(layout, work) else 0.0,
        "teacher_model": teacher.resident if teacher else 0.0,
        "reward_models": judge_bytes(work, path),
        "fisher_information": kept,
        "starting_weights": kept,
    }
    # sharded, what ranks have of the experts is a share of all of them, however they are spread
    held = sizes.trainable - (sizes.elsewhere if path.gradient_shards == 1 else 0)
    gradients = held * path.gradient / path.gradient_shards
    step = sizes.trainable * path.step_gradient / path.state_shards
    temporaries = _temporaries(layout, work, sizes, path)
    if work.elastic:  # behind the backward pass, of one parameter at a time: how far it moved, the pull, their product
        temporaries = max(temporaries, 3 * sizes.largest * path.trained)
    accumulated = _accumulated(layout, work, sizes, path, gradients)
    resident = States({k: v for k, v in terms.items() if v}, gradients, accumulated, step, temporaries, 0.0)
    on_device = _in_sub_groups(_offloaded_by_deepspeed(resident, layout, path), layout, sizes, path)
    return _paged(_in_one_buffer(on_device, layout), path)


def _keeps_reference(layout: Layout, work: Workload) -> bool:
    """Whether a copy of the start is there in every step."""
    return work.method.has_reference and layout.adapts.copies_reference and not layout.precomputes


def _accumulated(layout: Layout, work: Workload, sizes: Sizes, path: CodePath, gradients: float) -> float:
    """FSDP2 without a reduction after each micro step keeps whole gradients in the compute type."""
    if layout.fsdp and not work.sync_each_batch:
        return sizes.trainable * path.compute
    return gradients


def _frozen(sizes: Sizes, path: CodePath) -> float:
    """Frozen weights, packed ones among them: packed_weights.py shards all but the second scales."""
    if not path.quantized:
        return sizes.params * path.frozen / path.weight_shards
    rest = (sizes.params - sizes.linear) * path.frozen
    packed = sizes.linear * (path.quantized - path.second_scales) + sizes.linear_rows * path.row_scale
    return (packed + rest) / path.weight_shards + sizes.linear * path.second_scales


def optimizer_states(layout: Layout, sizes: Sizes, path: CodePath) -> float:
    """Of all ranks. Adafactor keeps fp32 factors; the 8-bit optimizers keep embeddings in fp32 (transformers' Trainer),
    but not under DeepSpeed, which hands them flat partitions."""
    if layout.optimizer == "adafactor":
        return FP32_BYTES * float(sizes.factors)
    embeddings = sizes.embedding + sizes.second
    whole = embeddings if "8bit" in layout.optimizer and layout.adapts.trains_all else 0
    if layout.spreads.engine == DEEPSPEED:
        whole = 0
    return (sizes.trainable - whole) * path.optimizer + whole * STATES[layout.optimizer] * FP32_BYTES


def _temporaries(layout: Layout, work: Workload, sizes: Sizes, path: CodePath) -> float:
    """Adafactor: two fp32 tensors of the largest parameter, with copies of a 16-bit parameter and its gradient four.

    The multi-tensor AdamW holds a copy of what it trains; so does the multi-tensor SGD for a decay. Where FSDP shards,
    SGD takes one parameter after the other (torch 2.13 `optim/optimizer.py`: no foreach for DTensors).
    """
    if layout.optimizer == "adafactor":
        return FP32_BYTES * sizes.largest * (2.0 if path.trained == FP32_BYTES else 4.0)
    if not (work.decays if layout.optimizer == "sgd" else work.foreach):
        return 0.0
    copied = sizes.largest if layout.optimizer == "sgd" and layout.fsdp else sizes.trainable
    return copied * max(path.trained, path.master) / path.state_shards


def _offloaded_by_deepspeed(states: States, layout: Layout, path: CodePath) -> States:
    """CPU offload: DeepSpeed moves masters, states and gradients; ZeRO-3, where it is asked to, also the weights, and
    those of other models, whose engines TRL gives the same configuration but for the optimizer (`prepare_deepspeed`).

    ZeRO-1 reduces gradients in the last of several micro steps alone. Until then they wait on the device, and those of
    other ranks until the step is done (DeepSpeed 0.19 stage_1_and_2.py, `reduce_ready_partitions_and_remove_grads` and
    the end of `reduce_ipg_grads`).
    """
    if not layout.offloads:
        return states
    if layout.spreads.engine != DEEPSPEED:
        raise ValueError(f"strategy {layout.strategy}: what engine {layout.spreads.engine} offloads is not known")
    moved = {"master_weights", "optimizer_states"}
    if layout.hosts_weights:
        moved |= {"weights", "adapters", "reference_model", "teacher_model"}
    kept = {name: size for name, size in states.terms.items() if name not in moved}
    whole = 0.0 if layout.spreads.shards_gradients else states.gradients
    share = states.gradients if layout.spreads.shards_gradients else states.gradients / path.state_shards
    host = sum(states.terms.values()) - sum(kept.values()) + share + states.step_gradients
    return States(kept, max(0.0, whole - share), whole, 0.0, 0.0, host * OFFLOAD_PINNED_COPIES)


def _in_sub_groups(states: States, layout: Layout, sizes: Sizes, path: CodePath) -> States:
    """ZeRO-3 updates a sub-group of a rank's weights after the other (DeepSpeed 0.19 stage3.py, `step`): the fp32
    gradients of one are there at a time, made from a flat copy of it in the compute type."""
    if layout.spreads.engine != DEEPSPEED or not layout.spreads.shards_weights or not path.master:
        return states
    share = sizes.trainable / path.state_shards
    part = min(1.0, SUB_GROUP / share)
    flat = path.gradient * share * bool(states.step_gradients)
    return replace(states, step_gradients=part * (states.step_gradients + flat), temporaries=part * states.temporaries)


def _in_one_buffer(states: States, layout: Layout) -> States:
    """ZeRO-3 makes the buffer of a rank's gradients before the first step and keeps it (DeepSpeed 0.19 stage3.py,
    `grad_partitions_flat_buffer`): on the device, unless the optimizer is offloaded."""
    if layout.spreads.engine != DEEPSPEED or not layout.spreads.shards_weights or not states.gradients:
        return states
    return replace(states, terms=states.terms | {"gradients": states.gradients})


def _paged(states: States, path: CodePath) -> States:
    """Paged optimizer states live in managed memory that the driver moves to the host when the device is full."""
    if not path.paged_optimizer or "optimizer_states" not in states.terms:
        return states
    kept = {name: size for name, size in states.terms.items() if name != "optimizer_states"}
    host = states.host + states.terms["optimizer_states"]
    return replace(states, terms=kept, host=host)
