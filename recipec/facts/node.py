"""The machine around the GPUs: what the recipe states of it, else what such a machine usually has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.gpus import Gpu
from recipec.catalog.machines import Machine, machine
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.fact import stated
from recipec.layout import Machines
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema_hardware import Hardware
from recipec.rules.core import Decision

KEYS = {"host_memory_gib": "host_memory_gib", "host_cores": "cpu_cores", "network_gbps": "network_gbps"}


class Node(Struct, frozen=True):
    """What one node has; None: neither stated nor known of such machines."""

    host_memory_gib: float | None
    host_cores: int | None
    network_gbps: float | None  # what it sends to the other nodes
    assumed: frozenset[str]  # which of them neither the recipe states nor a measurement has


def node_of(hardware: Hardware, gpu: Gpu, gpus_per_node: int) -> Node:
    """A node with so many GPUs of this kind."""
    usual, measured = machine(gpu.name, gpus_per_node), gpu.measured
    said = {
        "host_memory_gib": hardware.host_memory_gib or (measured and measured.host_memory_gib),
        "host_cores": hardware.cpu_cores or (measured and measured.cores),
        "network_gbps": hardware.network_gbps,
    }
    usually = {
        "host_memory_gib": _times(usual.host_memory_gib_per_gpu, gpus_per_node),
        "host_cores": _times(usual.cores_per_gpu, gpus_per_node),
        "network_gbps": usual.network_gbps,
    }
    values = {name: usually[name] if value is None else value for name, value in said.items()}
    assumed = frozenset(name for name, value in said.items() if value is None)
    return Node(**values, assumed=assumed)


def _times(each: Any, count: int) -> Any:
    return None if each is None else each * count


def node_facts(loaded: LoadedRecipe, gpu: Gpu, machines: Machines) -> list[Decision]:
    """Host memory and cores of a node, and its network where there are several nodes."""
    per_node, nodes = machines.gpus_per_node, machines.nodes
    node, usual = node_of(loaded.recipe.hardware, gpu, per_node), machine(gpu.name, per_node)
    texts = {
        "host_memory_gib": (f"{_number(node.host_memory_gib)} GiB of host memory in a node", "host_memory_gib_per_gpu"),
        "host_cores": (f"{_number(node.host_cores)} CPU cores in a node", "cores_per_gpu"),
        "network_gbps": (f"{_number(node.network_gbps)} Gbit/s between nodes", "network_gbps"),
    }
    if gpu.kind == "cpu":  # its memory is that of the device
        del texts["host_memory_gib"]
    names = [name for name in texts if name != "network_gbps" or nodes > 1]
    return [_fact(loaded, name, node, usual, gpu, *texts[name]) for name in names]


def _fact(loaded: LoadedRecipe, name: str, node: Node, usual: Machine, gpu: Gpu, text: str, of: str) -> Decision:
    """One of them; where it is assumed, what it is taken from."""
    key, value = f"hardware.{KEYS[name]}", getattr(node, name)
    if gpu.measured and name not in node.assumed:
        return stated(loaded, name, value, "hardware", KEYS[name], absent=gpu.measured.label, origin="measured")
    because = f"assumed: {text}, usual with {gpu.name} GPUs ({usual.basis(of)}); set `{key}`"
    whose = "of this CPU" if gpu.kind == "cpu" else f"of machines with {gpu.name} GPUs"
    absent = f"not known {whose}; set `{key}`" if value is None else because
    found = stated(loaded, name, value, "hardware", KEYS[name], absent=absent)
    several = ("nodes",) if name == "network_gbps" else ("gpus_per_node",)
    return replace(found, inputs=several if found.origin == "recipe" else ("gpu", *several))


def _number(value: float | None) -> str:
    return f"{value:,g}" if value is not None else ""


def unknown_network(loaded: LoadedRecipe, gpu: Gpu) -> Iterator[Diagnostic]:
    """Yield E0201 where nodes work together and nobody knows what lies between them."""
    hardware = loaded.recipe.hardware
    if (hardware.nodes or 1) == 1 or node_of(hardware, gpu, hardware.gpus_per_node or 1).network_gbps is not None:
        return
    label = Label(loaded.place("hardware", "nodes"), f"no usual network of machines with {gpu.name} GPUs is known")
    help = ("add `network_gbps = N`: what one node sends to the others, in Gbit/s, all its adapters together",)
    yield Diagnostic("E0201", "missing key `network_gbps` in [hardware]", (label,), help)
