"""What a strategy changes in a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recipec.catalog.architecture import Architecture
from recipec.layout import Layout
from recipec.render.call import Arg
from recipec.render.mapping import Leaf


@dataclass(frozen=True, slots=True)
class Run:
    """What the configuration files of a strategy are made from."""

    layout: Layout
    architecture: Architecture
    max_grad_norm: float
    ids: Callable[..., tuple[str, ...]]  # decision names -> ids for the source map
    nodes: int = 1  # machines that the devices are in
    folder: str = "configs"  # where the files are; the stages of a recipe may need different ones


def no_files(run: Run) -> dict[str, Mapping[str, Any]]:
    """The configuration of a strategy that needs none."""
    return {}


def no_arguments(run: Run) -> list[Arg]:
    """The trainer arguments of a strategy that needs none."""
    return []


@dataclass(frozen=True, slots=True)
class Sharder:
    """One strategy: what it is called, what a run of it looks like, and which files and arguments it needs."""

    name: str
    title: str
    fact: str  # what preflight.py reports for a real run: none | ddp | fsdp | deepspeed
    config: str = ""  # the accelerate configuration that the launch script passes
    deepspeed: str = ""  # the DeepSpeed configuration, likewise
    files: Callable[[Run], dict[str, Mapping[str, Any]]] = no_files
    arguments: Callable[[Run], list[Arg]] = no_arguments  # arguments of the trainer's configuration
    shards_parameters: bool = False  # no rank holds the whole model
    keeps_master: bool = False  # keeps fp32 masters itself, so the weights are loaded in the compute dtype
    gathers_on_save: bool = False  # the final save must be told to write one whole model
    copies_shards: bool = False  # ranks fall into groups that each hold all shards


def accelerate_head(run: Run, distributed_type: str) -> dict[str, Any]:
    """The keys that every accelerate configuration has."""
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": Leaf(distributed_type, run.ids("strategy")),
        "num_machines": Leaf(run.nodes, run.ids("world_size")),
        "num_processes": Leaf(run.layout.mesh.world_size, run.ids("world_size")),
        "machine_rank": 0,
    }
