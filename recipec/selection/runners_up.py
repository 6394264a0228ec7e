"""The models that come next to the chosen one, each with why it was not taken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import log

from recipec.catalog.models import Model
from recipec.facts import Given
from recipec.planner.plan import RunnerUp
from recipec.recipe import LoadedRecipe
from recipec.rules.model import model_base_bits, model_memory_share
from recipec.selection.shortlist import Miss, Shortlist
from recipec.selection.trial import Room, tried, tried_by_planning

_BEFORE, _AFTER, _LEFT_OUT = 2, 1, 2
_TOLD = ("model_licenses", "model_purposes", "model_context", "model_max_params_billion")
_FAR = log(2)  # models of less than half or more than twice the size are no alternatives


def runners_up(
    loaded: LoadedRecipe, given: Given, found: Shortlist, group: tuple[Model, ...], chosen: Model, room: Room
) -> tuple[RunnerUp, ...]:
    """Up to five: what would have come before it, what comes after it, and what of its size is left out."""
    at = group.index(chosen)
    before = [_runner_up(model, _why_not(loaded, given, model, room)) for model in group[:at][::-1][:_BEFORE]]
    fitting = (model for model in group[at + 1 :] if tried(loaded, given, model, room).fits)
    after = [_runner_up(model, _why_after(model, chosen)) for model in islice(fitting, _AFTER)]
    return (*before, *after, *islice(_left_out(found, chosen), _LEFT_OUT))


def _runner_up(model: Model, reason: str) -> RunnerUp:
    return RunnerUp(model.name, round(model.architecture.params / 1e9, 2), reason)


def _why_not(loaded: LoadedRecipe, given: Given, model: Model, room: Room) -> str:
    """What stands against a model of the front rows, and what of it more room would change."""
    obstacle = tried_by_planning(loaded, given, model, room).obstacle
    if not obstacle:
        return "fits, and is larger than the smallest"
    most = tried(loaded, given, model, _most_room(given))
    return f'{obstacle}; priority = "quality" would allow {most.summary}' if most.fits else obstacle


def _most_room(given: Given) -> Room:
    """What priority quality allows."""
    priority, on_cpu = "quality", given.gpu.kind == "cpu"
    return Room(model_base_bits(priority).value, model_memory_share(priority, on_cpu).value)


def _why_after(model: Model, chosen: Model) -> str:
    """Why a model that fits as well comes later, by the order of MODEL-007."""
    size, first = (found.architecture.params / 1e9 for found in (model, chosen))
    if size < 0.95 * first:
        return f"fits, and is smaller: {size:.2f}B parameters against {first:.2f}B"
    if model.gated and not chosen.gated:
        return "fits, of about the size, and is gated"
    if chosen.marked_by_trl > model.marked_by_trl:
        return "fits, of about the size; its template does not mark the assistant's tokens in the pinned TRL"
    return f"fits, of about the size, with a context of {model.architecture.max_position:,} tokens"


def _left_out(found: Shortlist, chosen: Model) -> Iterator[RunnerUp]:
    """For each term the model nearest in size that only this term leaves out."""
    missed = [(model, misses) for model, misses in found.missed if model.kind == chosen.kind]
    alone = [(model, misses[0]) for model, misses in missed if len(misses) == 1]
    for term in _TOLD:
        near = [pair for pair in alone if pair[1].term == term and _distance(pair[0], chosen) <= _FAR]
        if near:
            model, miss = min(near, key=lambda pair: (_distance(pair[0], chosen), len(pair[0].name), pair[0].name))
            yield _runner_up(model, _admission(miss))


def _distance(model: Model, chosen: Model) -> float:
    return abs(log(model.architecture.params / chosen.architecture.params))


def _admission(miss: Miss) -> str:
    return f"{miss.reason}; {miss.admitted_by} admits it"
