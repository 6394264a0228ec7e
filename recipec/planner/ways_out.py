"""What would make a stage fit that does not: single changes of the recipe, each one tried by planning it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from recipec.catalog.gpus import gpu, gpu_names
from recipec.catalog.models import model, model_names
from recipec.planner.choose import GIB, Candidate
from recipec.planner.fit import fit
from recipec.planner.settle import Context
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Decision, Wish

PINS = ("train.adaptation", "train.quantization", "train.strategy", "train.offload", "train.micro_batch_size")
SHOWN = 3
SHORTEST_TOKENS = 256


def ways_out(context: Context, loaded: LoadedRecipe) -> list[str]:
    """The nearest changes that fit, at most three, each as a line for the user."""
    found = []
    for kind in (_unpinned, _more_gpus, _larger_gpu, _shorter, _smaller_model):
        for change, changed in kind(context):
            chosen = fit(changed, loaded).chosen
            if chosen is not None:
                found.append(f"{change}: {_summary(chosen)}")
                break
    return found[:SHOWN]


def _summary(chosen: Candidate) -> str:
    return f"{chosen.family} fits with {chosen.memory.peak_allocated_bytes / GIB:.1f} GiB per device"


def _unpinned(context: Context) -> Iterator[tuple[str, Context]]:
    """Let recipec decide what the recipe fixes."""
    pinned = [key for key in PINS if key in context.wishes]
    if pinned:
        free = {key: wish for key, wish in context.wishes.items() if key not in PINS}
        yield f"without {' and '.join(pinned)}", replace(context, wishes=free)


def _more_gpus(context: Context) -> Iterator[tuple[str, Context]]:
    for count in (2, 4, 8):
        if count > context.facts.gpus:
            yield f"gpus_per_node = {count}", _with_gpus(context, count)


def _with_gpus(context: Context, count: int) -> Context:
    facts = context.facts
    given = _given(facts.decisions, gpus=count, total_vram_gib=count * facts.gpu.memory_gib)
    return replace(context, facts=replace(facts, gpus=count, decisions=given))


def _larger_gpu(context: Context) -> Iterator[tuple[str, Context]]:
    facts = context.facts
    known = [card for card in map(gpu, gpu_names()) if card is not None]
    for card in sorted(known, key=lambda card: card.memory_gib):
        if card.memory_gib > facts.gpu.memory_gib:
            total = card.memory_gib * facts.gpus
            given = _given(facts.decisions, vram_gib=card.memory_gib, total_vram_gib=total, gpu_bf16=card.bf16)
            yield f'gpu = "{card.name}"', replace(context, facts=replace(facts, gpu=card, decisions=given))


def _shorter(context: Context) -> Iterator[tuple[str, Context]]:
    wish = context.wishes.get("data.max_length")
    length = wish.value // 2 if wish else 0
    while length >= SHORTEST_TOKENS:
        shorter = {**context.wishes, "data.max_length": Wish(length, "a shorter max_length")}
        yield f"max_length = {length}", replace(context, wishes=shorter)
        length //= 2


def _smaller_model(context: Context) -> Iterator[tuple[str, Context]]:
    """The next smaller models of the same family."""
    facts = context.facts
    known = [found for found in map(model, model_names()) if found is not None]
    family = [other for other in known if other.family == facts.model.family and other.kind == facts.model.kind]
    for other in sorted(family, key=lambda other: -other.architecture.params):
        if other.architecture.params < facts.model.architecture.params:
            given = _given(facts.decisions, params=other.architecture.params)
            yield f'model.name = "{other.name}"', replace(context, facts=replace(facts, model=other, decisions=given))


def _given(decisions: Mapping[str, Decision], **values: Any) -> dict[str, Decision]:
    """The facts with other values."""
    return {id: replace(fact, value=values.get(id, fact.value)) for id, fact in decisions.items()}
