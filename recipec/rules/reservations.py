"""What a plan says of the accuracy of its figures and of what they leave out: by `recipec plan` and by README.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.axes.strategies import ON_DEVICE
from recipec.rules.loader import by_chance
from recipec.units import GIB, gib

Document = dict[str, Any]  # the plan of a stage, or a part of it, as .recipec/plan.json holds it
_NOT_SCORED = "measured over predicted: not known, no published run of this kind was scored"


def of_memory(memory: Document) -> list[str]:
    """How near measurements came to such predictions, and what else may take the memory that is left."""
    band = memory["error_band"]
    measured = _band(band["low"], band["high"], band["source"]) if band["scored"] else _NOT_SCORED
    return [measured, *filter(None, (memory["tight"],))]


def whole_memory(memory: Document, on_cpu: bool) -> str:
    """What is taken beyond the tensors: of a GPU the allocator's cache and the driver, on a CPU the process."""
    whole = f"{gib(memory['peak_device_bytes'])} of {gib(memory['capacity_bytes'])}"
    if on_cpu:
        return f"{whole} with what else the process takes"
    reserved = f"{gib(memory['peak_reserved_bytes'])} reserved with the allocator's cache"
    return f"{reserved}, {whole} with what the driver takes; the accuracy of these two figures is not known"


def of_step(time: Document) -> str:
    """How near measurements came to such predictions of a step's time."""
    unscored = "; ".join(filter(None, (_NOT_SCORED, time["slower"])))
    return f"of a step, {_band(*time['band'], time['band_source']) if time['scored'] else unscored}"


def _band(low: float, high: float, source: str) -> str:
    """By how much measurements differ from predictions, and which ones these are."""
    return f"measured over predicted: {100 * (low - 1):+.0f}% to {100 * (high - 1):+.0f}% ({source})"


def not_counted(stage: Document) -> str:
    """What the time and the cost of the whole run leave out."""
    told = any(part["part"] == "failures" for part in stage["run"])
    others = ["installing packages", "waiting for the machine", "sample answers"]
    others += [] if told else ["what a failure repeats"]
    return f"not counted: {', '.join(others[:-1])}, and {others[-1]}"


OF_MACHINE = ("network_gbps", "host_memory_gib", "host_cores")  # decisions that may be assumed, as they are told


OF_LENGTHS = (
    "packing",
    "sampling",
    "curriculum_by",
    "tokens_p99",
    "tokens_per_example",
    "training_tokens",
)  # whether padding counts


def assumed(stage: Document) -> Iterator[str]:
    """What the speed of a GPU is taken from that only its memory names, and what nobody stated of the machine."""
    decisions = {decision["id"]: decision for decision in stage["decisions"]}
    known, _, card = decisions["vram_gib"]["source"].partition("assumption: ")
    if card and not known and "measured" not in stage:
        yield card
    if like := decisions["like"]["value"]:
        yield f"the shape of {like}, which the recipe names for this model"
    if decisions["has_turn_end"]["value"] is None and decisions["eos_token"]["value"] != "none":
        end = decisions["template_end"]["value"]
        yield f"the tokenizer has {end}, which ends turns of the chat template"
    if "new_tokens" in decisions and "assumed" in decisions["new_tokens"]["because"]:
        yield "the tokenizer lacks every token of model.new_tokens; a token that it has needs no line there"
    yield from _lengths(stage["choice"]["micro_batch_size"], decisions)
    unused = () if _needs_host(stage, decisions) else ("host_memory_gib",)
    for id in (id for id in OF_MACHINE if id in decisions and id not in unused):
        because = decisions[id]["because"]
        if because.startswith("assumed: "):
            yield because.removeprefix("assumed: ")


def _lengths(rows: int, decisions: Document) -> Iterator[str]:
    """What is not counted where nothing is known of how long rows are but their mean, and chance puts them together."""
    value = {id: decision["value"] for id, decision in decisions.items()}
    usual = value.get("training_tokens", value["tokens_per_example"])
    if rows > 1 and by_chance(value) and (value["tokens_p99"] or 0) <= usual:
        padding = f"the padding of {rows} in a batch is not counted"
        yield f"rows of equal length: how far theirs differ is not known, so that {padding}"


def rates(stage: Document) -> list[str]:
    """What the figures rest on, where the recipe names measurements."""
    basis = stage.get("measured")
    if basis is None:
        return []
    untold = [f"assumed, not told by that file: {', '.join(basis['assumed'])}"] if basis["assumed"] else []
    return [f"{basis['label']}: {', '.join(basis['measured'])}", *untold]


MUCH_HOST_MEMORY = 0.5  # of what a node is assumed to have: from there on the plan says so; our decision


def _needs_host(stage: Document, decisions: Document) -> bool:
    """Whether a plan rests on the host memory of a node: it keeps data there, takes much of it, or lacks more."""
    choice, host = stage["choice"], stage["host"]
    has = decisions["host_memory_gib"]["value"] if "host_memory_gib" in decisions else None
    much = has is not None and host["needed_bytes"] > MUCH_HOST_MEMORY * has * GIB
    scored_there = stage["evaluation"]["trained"]["where"] == "offloaded"
    kept_there = choice["offload"] != ON_DEVICE or choice["activation_offload"] or scored_there
    return kept_there or much or bool(host["with_more"])
