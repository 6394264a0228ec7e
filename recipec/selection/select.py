"""The model that `model.name = "auto"` stands for: the first acceptable one, by size, whose plan fits."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from recipec.catalog.models import Model, models
from recipec.diagnostics.model import Report
from recipec.facts import Facts, Given, with_model
from recipec.planner.plan import RunnerUp, Selection
from recipec.planner.planner import contexts
from recipec.recipe import LoadedRecipe
from recipec.rules import RULES
from recipec.rules.core import Decision
from recipec.rules.model import model_order
from recipec.selection import Chosen
from recipec.selection.no_model import no_model
from recipec.selection.runners_up import runners_up
from recipec.selection.shortlist import Shortlist, shortlist
from recipec.selection.terms import Terms, terms_of
from recipec.selection.trial import ANY_ROOM, Room, Trial, first_to_fit

_INPUTS = ("task", "priority", "new_domain", "first_time", "examples", "gpu", "gpus", "vram_gib", "gpu_is_cpu")
_FIXABLE = {  # recipe key -> the decision that it fixes, for those that a plan depends on
    **{rule.key: rule.decides for rule in RULES.values() if rule.key.startswith(("train.", "data.", "alignment."))},
    **{f"train.{id}": id for id in ("adaptation", "quantization", "strategy", "offload", "micro_batch_size")},
    "train.activation_checkpointing": "checkpointing",
    **{f"train.{id}": id for id in ("recompute_every", "activation_offload")},
}


class _Picked(Struct, frozen=True):
    trial: Trial
    group: tuple[Model, ...]  # the acceptable models of its kind
    room: Room  # what it fits in


def select_model(loaded: LoadedRecipe, given: Given, report: Report) -> Chosen | None:
    """The facts with the selected model; None with E0408 without one."""
    terms = terms_of(loaded, given)
    found, room = shortlist(models(), terms, loaded), _room(loaded, terms)
    picked = _pick(loaded, given, found, room)
    if picked is None:
        report.add(no_model(loaded, given, found, room))
        return None
    return _selected(loaded, given, terms, found, room, picked)


def _room(loaded: LoadedRecipe, terms: Terms) -> Room:
    """What the rules allow; a quantization that the recipe fixes is taken at its word."""
    fixed = "train.quantization" in loaded.wishes("", last=True)
    return Room(4 if fixed else terms.value("model_base_bits"), terms.value("model_memory_share"))


def _pick(loaded: LoadedRecipe, given: Given, found: Shortlist, room: Room) -> _Picked | None:
    """The first model that fits into the room; where none does, the smallest that fits at all."""
    for group in found.groups:
        smallest_first = tuple(sorted(group, key=lambda model: model.architecture.params))
        for tried_first, allowed in ((group, room), (smallest_first, ANY_ROOM)):
            trial = first_to_fit(loaded, given, tried_first, allowed)
            if trial is not None:
                return _Picked(trial, group, allowed)
    return None


def _selected(
    loaded: LoadedRecipe, given: Given, terms: Terms, found: Shortlist, room: Room, picked: _Picked
) -> Chosen:
    """The facts with the chosen model and the terms that it meets, and how it was chosen."""
    model, because = picked.trial.model, _because(given, room, picked)
    others = runners_up(loaded, given, found, picked.group, picked.trial.model, picked.room)
    freed = tuple(_without_a_key(loaded, given, terms, found, picked))
    others = (*freed, *(other for other in others if other.model not in {row.model for row in freed}))
    size = round(model.architecture.params / 1e9, 2)
    selection = Selection(model.name, size, because, len(found.acceptable), len(models()), others)
    facts = with_model(loaded, given, model)
    asked = {id: decision for id, decision in terms.decisions.items() if decision.value is not None}
    basis = (*asked, *_fixed(loaded, facts))
    decisions = {**asked, **facts.decisions, "model": _decision(model, because, basis)}
    alternatives = Decision(
        "model_runners_up",
        [other.model for other in others],
        "; ".join(f"{other.model}: {other.reason}" for other in others) or "no other model is acceptable",
        inputs=("model", *basis),
        origin="planner",
        source="plans of the same recipe with these models",
        key="model.name",
    )
    return replace(facts, decisions=decisions | {alternatives.id: alternatives}), selection


def _fixed(loaded: LoadedRecipe, facts: Facts) -> tuple[str, ...]:
    """The decisions that the recipe takes itself: plans were tried with them."""
    keys = {key for context in contexts(loaded, facts) for key in context.wishes}
    return tuple(sorted({_FIXABLE[key] for key in keys if key in _FIXABLE}))


_CHANGES_MODEL = ("quantization", "adaptation")  # keys of [train] with which other models fit


def _without_a_key(
    loaded: LoadedRecipe, given: Given, terms: Terms, found: Shortlist, picked: _Picked
) -> Iterator[RunnerUp]:
    """The model that the recipe would get without a key that says how it trains, where that is another one."""
    for key in _CHANGES_MODEL:
        if getattr(loaded.recipe.train, key) is None:
            continue
        train = loaded.recipe.train.model_copy(update={key: None})
        free = replace(loaded, recipe=loaded.recipe.model_copy(update={"train": train}))
        other = _pick(free, given, found, _room(free, terms))
        if other is not None and other.trial.model != picked.trial.model:
            model = other.trial.model
            reason = f"would be chosen without `train.{key}`: fits with {other.trial.summary}"
            yield RunnerUp(model.name, round(model.architecture.params / 1e9, 2), reason)
            return


def _decision(model: Model, because: str, terms: tuple[str, ...]) -> Decision:
    return Decision(
        "model",
        model.name,
        because,
        inputs=(*terms, *_INPUTS),
        origin="planner",
        rule=model_order.id,
        watch=model_order.watch,
        source=model_order.source,
        key="model.name",
    )


def _because(given: Given, room: Room, picked: _Picked) -> str:
    model, machine = picked.trial.model, f"{given.machines.gpus} x {given.gpu.name}"
    size = f"{model.architecture.params / 1e9:.2f}B parameters, {picked.trial.summary} of {given.gpu.memory_gib:.1f}"
    unread = " (widely published, not looked up)" if "licence" in model.unverified else ""
    end = f"{size}, license {model.licence}{unread}"
    if picked.room != room:
        return f"none of {len(picked.group)} acceptable {model.kind} models fits {room}: the smallest, {end}"
    acceptable = f"{len(picked.group)} acceptable {model.kind} models"
    return f"of {acceptable}, in the order of {model_order.id}, the first to fit {machine} {room}: {end}"
