"""Whether the plan is another one where the machine is not as assumed (W0523)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.catalog.machines import UNKNOWN_PCIE, machine
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts import Facts
from recipec.planner.advice.change import other_batch
from recipec.planner.advice.host_memory import wanted_host_gib, with_room
from recipec.planner.advice.stated import stating
from recipec.planner.plan import StagePlan
from recipec.planner.search.bounds import Bounds
from recipec.planner.search.candidates import Candidate, retimed, seconds_per_sequence
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.names import adaptation_name
from recipec.planner.search.preference import best
from recipec.recipe import LoadedRecipe
from recipec.units import GIB, counted

LEAST_NETWORK_GBPS = 25  # docs/rule-books/001.md, Networking
CROWDED = 0.5  # of the assumed memory: what is assumed is low for the GPU, so few nodes have less; our decision
NETWORK_SPREAD = 4  # between the usual networks of one kind of GPU, up and down: machines.toml; our decision


def other_networks(context: Context, found: Fit, loaded: LoadedRecipe, bounds: Bounds) -> tuple[str, ...]:
    """What a recipe with another network between the nodes is planned as, where it does not state one.

    It is planned anew only where another of the tried layouts would be the best: that takes as long as the plan.
    """
    network, chosen = context.facts.decisions.get("network_gbps"), found.chosen
    if network is None or network.origin == "recipe" or chosen is None:
        return ()
    told, alike = [], [other for other in found.tried if other.fits and other.layout.adapts is chosen.layout.adapts]
    wide = [other for other in alike if other.layout.can_be_built or not chosen.layout.can_be_built]
    for rate in (network.value / NETWORK_SPREAD, network.value * NETWORK_SPREAD):
        link = replace(bounds.link, network_gb_s=rate / 8)
        other = best(retimed(wide, context.facts, replace(bounds, link=link)))
        if other is None or _how(other) == _how(chosen):
            continue
        then = fit(context, stating(loaded, network_gbps=rate)).chosen
        if then is None or (chosen.layout.can_be_built and not then.layout.can_be_built):
            continue
        name = adaptation_name(context.stage.name, then.layout)
        adapted = f"{name}, " * (then.layout.adapts is not chosen.layout.adapts)
        if adapted or _how(then) != _how(chosen):
            batch = other_batch(chosen.layout, then.layout)
            told.append(f"with {rate:,g} Gbit/s: {adapted}{_how(then)}{f' {batch}' * bool(batch)}")
    return tuple(told)


def _how(candidate: Candidate) -> str:
    return f"{candidate.layout.strategy} on {counted(candidate.layout.mesh.world_size, 'GPU')}"


def assumed_machine(loaded: LoadedRecipe, stage: StagePlan) -> Iterator[Diagnostic]:
    """Yield W0523 for what nobody stated of the machine, where the plan depends on it."""
    yield from _network(loaded, stage)
    yield from _host(loaded, stage)
    yield from _slot(loaded, stage)


def _network(loaded: LoadedRecipe, stage: StagePlan) -> Iterator[Diagnostic]:
    network, card = stage.decisions.get("network_gbps"), stage.decisions["gpu"].value
    several = stage.layout.mesh.world_size > stage.decisions["gpus_per_node"].value
    slow = network is not None and network.value < LEAST_NETWORK_GBPS and several
    if network is None or network.origin == "recipe" or not (slow or stage.other_networks):
        return
    label = Label(loaded.place("hardware", "nodes"), f"{network.value:,g} Gbit/s are assumed between {card} nodes")
    help = ("set `hardware.network_gbps` to what one node sends to the others, all its adapters together",)
    title = f"stage {stage.stage.label} depends on a network that the recipe does not state"
    yield Diagnostic("W0523", title, (label,), help, stage.other_networks)


def more_host_memory(facts: Facts, chosen: Candidate, tried: Sequence[Candidate]) -> str:
    """What would be chosen, and be clearly faster, if a node had more host memory than is assumed; else ""."""
    memory = facts.decisions.get("host_memory_gib")
    if memory is None or memory.origin != "default" or chosen.crowds_host:
        return ""
    alike = [other for other in tried if other.layout.adapts is chosen.layout.adapts and other.layout.can_be_built]
    other = best(with_room(alike))
    if other is None or seconds_per_sequence(other) * (1 + chosen.tie) >= seconds_per_sequence(chosen):
        return ""
    return f"with {wanted_host_gib(other):,} GiB of host memory in a node: {_how(other)}"


def _host(loaded: LoadedRecipe, stage: StagePlan) -> Iterator[Diagnostic]:
    memory, needed = stage.decisions.get("host_memory_gib"), stage.needs.host.needed_bytes / GIB
    if memory is None or memory.origin != "default":
        return
    rests = not stage.layout.on_device or METHODS[stage.stage.name].random_weights
    if not (rests and needed > CROWDED * memory.value) and not stage.more_host_memory:
        return
    key = "gpu" if loaded.is_set("hardware", "gpu") else "vram_gib"
    label = Label(loaded.place("hardware", key), f"{memory.value:,g} GiB are assumed, and {needed:,.0f} GiB are needed")
    cores = stage.layout.offloads and stage.decisions["host_cores"].origin == "default"  # they run the optimizer
    keys = "`hardware.host_memory_gib`" + " and `hardware.cpu_cores`" * cores
    help = (f"set {keys} to what a node has",)
    title = f"stage {stage.stage.label} depends on host memory that the recipe does not state"
    yield Diagnostic("W0523", title, (label,), help, (stage.more_host_memory,) if stage.more_host_memory else ())


def _slot(loaded: LoadedRecipe, stage: StagePlan) -> Iterator[Diagnostic]:
    """Tensors that rest in host memory cross the slot of a GPU; of one without a row in machines.toml it is unknown."""
    card, hardware = stage.decisions["gpu"].value, loaded.recipe.hardware
    known = machine(card, hardware.gpus_per_node or 1).checked or hardware.measured
    if known or stage.layout.on_device:
        return
    key = "gpu" if loaded.is_set("hardware", "gpu") else "vram_gib"
    label = Label(loaded.place("hardware", key), f"PCIe {UNKNOWN_PCIE} is assumed between host memory and the GPU")
    help = ("measure the machine with `recipec probe`, and name its file as `hardware.measured`",)
    yield Diagnostic("W0523", f"stage {stage.stage.label} depends on a slot that is not known", (label,), help)
