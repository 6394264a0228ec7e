"""What an engine, who moves data between the ranks of a run, changes in a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from recipec.axes import Strategy
from recipec.backends.parts import Part, lines
from recipec.catalog.architecture import Architecture
from recipec.layout import Layout
from recipec.render.call import Arg
from recipec.render.mapping import Leaf

Files = dict[str, Mapping[str, Any]]
_ACCELERATE = {"bf16": "bf16", "fp16": "fp16", "fp32": "no"}
_TORCH = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


class Placement(Struct, frozen=True):
    """What the footprint of a strategy is made from."""

    layout: Layout
    architecture: Architecture
    max_grad_norm: float
    ids: Callable[..., tuple[str, ...]]  # decision names -> ids for the source map
    nodes: int  # that the devices are in
    folder: str  # where the configuration files are; the stages of a recipe may need different ones
    own_loop: bool  # train.py has the steps itself, and talks to the engine without accelerate
    first_reads: bool  # one rank of a node reads the weights for the others


class EngineBackend(Struct, frozen=True, kw_only=True):
    """The footprint of the strategies that an engine runs; which one it is, their row in `run.layout.spreads` says."""

    config: str  # the accelerate configuration that the launch script passes; "" where one process starts by itself
    deepspeed: str  # the DeepSpeed configuration, likewise
    packages: tuple[str, ...]
    files: Callable[[Placement], Files]
    arguments: Callable[[Placement], list[Arg]]  # of the trainer's configuration
    part: Callable[[Placement], Part]  # of train.py
    gathers_on_save: bool  # a save must be told to write one whole model
    counts_passes: bool  # takes every backward pass for a step of the training
    dtensors: bool  # holds weights as DTensors
    shards_what_it_loads: bool  # where it shards weights, those of every model, as they are loaded
    recomputing: str  # where layers are recomputed, if that has to be said
    equal_start: Callable[[Strategy], str]  # how random weights come to be the same on every rank


def no_files(run: Placement) -> Files:
    """The configuration of an engine that needs none."""
    return {}


def no_arguments(run: Placement) -> list[Arg]:
    """The trainer arguments of an engine that needs none."""
    return []


def seeded(strategy: Strategy) -> str:
    """Every rank makes the whole model."""
    return "The seed makes them equal on every rank."


def leaves(run: Placement) -> Part:
    """The end of a run of several processes."""
    wait = "trainer.accelerator.wait_for_everyone()  # one that leaves early can break the connections of the others"
    end = "trainer.end()  # leave the process group; last, because saving needs it"
    return Part(after_saving=lines(run.ids("strategy"), wait, end))


def accelerate_head(run: Placement) -> dict[str, Any]:
    """The keys that every accelerate configuration has."""
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": Leaf(run.layout.spreads.distributed_type, run.ids("strategy")),
        "num_machines": Leaf(run.nodes, run.ids("world_size")),
        "num_processes": Leaf(run.layout.mesh.world_size, run.ids("world_size")),
        "machine_rank": 0,
    }


def mixed_precision(run: Placement) -> Leaf:
    """How accelerate names the compute dtype."""
    return Leaf(_ACCELERATE[run.layout.precision], run.ids("precision"))


def torch_dtype(precision: str) -> str:
    """The compute dtype as a member of torch."""
    return _TORCH[precision]
