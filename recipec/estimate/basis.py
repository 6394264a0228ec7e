"""Which figures of a plan were measured on the machine, and which of those that it needs are still assumed."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from recipec.catalog.gpus import Gpu
from recipec.catalog.measured import Measured
from recipec.estimate.calibration import calibration_of
from recipec.estimate.overhead import heap_factor
from recipec.layout import Layout, Machines


class Basis(Struct, frozen=True):
    """What a stage's prediction rests on."""

    label: str  # which machine was measured, and when
    measured: tuple[str, ...]
    assumed: tuple[str, ...]


def basis_of(gpu: Gpu, layout: Layout, machines: Machines) -> Basis:
    """The figures that the prediction of `layout` needs, by where they are from."""
    assert gpu.measured is not None
    needed = list(_needed(gpu, gpu.measured, layout, machines))
    return Basis(
        label=gpu.measured.label,
        measured=tuple(name for name, there in needed if there),
        assumed=tuple(name for name, there in needed if not there),
    )


def _needed(gpu: Gpu, found: Measured, layout: Layout, machines: Machines) -> Iterator[tuple[str, bool]]:
    """Each figure that the prediction needs, and whether it was measured."""
    world, precision = layout.mesh.world_size, layout.precision
    on_cpu = found.device == "cpu"
    yield f"{precision} products", any(rate.dtype == precision for rate in found.products)
    yield f"{precision} attention", any(rate.dtype == precision for rate in found.attention)
    yield "memory traffic", found.copy_gb_s is not None
    learned = calibration_of(gpu, precision)
    yield "launches", learned.launches_learned
    yield "the rest of a step", learned.kernels_learned
    if layout.optimizer == "adamw" and not layout.offloads:
        yield "the optimizer", found.optimizer_gb_s is not None
    if on_cpu:
        yield "memory of a process", found.process_gib is not None
        yield "what its heap keeps", heap_factor(found) is not None
    else:
        yield "memory of the GPU and what its driver takes", found.memory_gib is not None
    yield "the start of a process", found.start_seconds is not None
    yield "the disk", found.disk_write_gb_s is not None
    if world > 1:
        yield "links in the node", None not in (found.bus_gb_s, found.collective_seconds)
    if world > machines.gpus_per_node:
        yield "the network between nodes", False
    if not layout.on_device:
        yield "copies to and from host memory", found.host_link_gb_s is not None
    if layout.offloads:
        yield "the optimizer on the CPU", False
