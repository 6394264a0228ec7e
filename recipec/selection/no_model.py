"""What to say when no model of the catalog can be chosen: what leaves them out, and the changes that admit one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec.structs import replace

from recipec.axes.adaptations import ALL_LINEAR
from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts import Given, with_model
from recipec.planner.advice.ways_out import ways_out
from recipec.planner.planner import contexts
from recipec.planner.search.fit import fit
from recipec.recipe import LoadedRecipe
from recipec.recipe.changed import with_adapters
from recipec.rules.core import Wish
from recipec.rules.model import OPEN_LICENCES
from recipec.selection.shortlist import Miss, Shortlist, ordered
from recipec.selection.trial import ANY_ROOM, Room, Trial, first_to_fit, tried, tried_by_planning

_SHOWN = 4
_LONGEST, _SHORTEST = 131_072, 1_024  # tokens
_ASKED = {  # term -> what is wrong with a model by it; in the order in which a change of it is proposed
    "model_context": "a context shorter than the rows need",
    "model_max_params_billion": "larger than model.max_params_billion",
    "model_licenses": "a license that is not among the acceptable ones (MODEL-002)",
    "model_family": "not of model.family",
    "model_kinds": "a chat model where a base model is needed, or the other way (MODEL-001)",
    "model_purposes": "made for one purpose, or a mixture of experts (MODEL-003)",
    "lora_targets": "without a module of train.lora.targets",
    "lora_expert_rank": "without the experts that train.lora.expert_rank is for",
    "policy_models": "not among the policy's models",
    "policy_licenses": "not among the policy's licenses",
}
_FREE = {"lora_targets": ("targets", ALL_LINEAR), "lora_expert_rank": ("expert_rank", None)}  # keys of adapters
_OPEN = tuple(term for term in _ASKED if not term.startswith("policy"))  # a recipe cannot change a policy


def no_model(loaded: LoadedRecipe, given: Given, found: Shortlist, room: Room) -> Diagnostic:
    """E0408 with the reasons, and with ways out that were each tried by planning."""
    ways = tuple(islice(_ways(loaded, given, found, room), _SHOWN)) or (
        "no single change helps: name a model, or relax several conditions",
    )
    if not found.acceptable:
        label = Label(loaded.place("model", "name"), "0 models are acceptable")
        return Diagnostic("E0408", "no model of the catalog meets all conditions", (label,), ways, _left_out(found))
    count, known = len(found.acceptable), len(found.acceptable) + len(found.superseded) + len(found.missed)
    title = f"no acceptable model fits or stays within the limits; {count} of {known} are acceptable"
    return Diagnostic("E0408", title, (_limit(loaded, given, found),), ways, _obstacles(loaded, given, found))


def _limit(loaded: LoadedRecipe, given: Given, found: Shortlist) -> Label:
    """What the smallest model does not keep to: the budget, or else the hardware."""
    plan, budget = tried(loaded, given, _smallest(found)[0], ANY_ROOM).plan, loaded.recipe.budget
    if plan is not None and budget.max_hours is not None and plan.seconds > 3600 * budget.max_hours:
        return Label(loaded.place("budget", "max_hours"), "the smallest model takes more")
    if plan is not None and budget.max_gpu_hours is not None and plan.gpu_hours > budget.max_gpu_hours:
        return Label(loaded.place("budget", "max_gpu_hours"), "the smallest model takes more")
    if plan is not None and budget.max_cost_usd is not None:
        return Label(loaded.place("budget", "max_cost_usd"), "the smallest model cannot be shown to take less")
    key = "gpu" if loaded.is_set("hardware", "gpu") else "vram_gib"
    return Label(loaded.place("hardware", key), f"{given.machines.gpus} x {given.gpu.memory_gib:g} GiB")


def _left_out(found: Shortlist) -> tuple[str, ...]:
    counts = Counter(miss.term for _, misses in found.missed for miss in misses)
    all_ = len(found.missed)
    return tuple(f"{counts[term]} of {all_} models: {words}" for term, words in _ASKED.items() if counts[term])


def _obstacles(loaded: LoadedRecipe, given: Given, found: Shortlist) -> tuple[str, ...]:
    """What stands against the three smallest."""
    trials = [tried_by_planning(loaded, given, model, ANY_ROOM) for model in _smallest(found)[:3]]
    return tuple(f"{trial.model.name}: {trial.obstacle}" for trial in trials)


def _smallest(found: Shortlist) -> list[Model]:
    return sorted(found.acceptable, key=lambda model: model.architecture.params)


def _ways(loaded: LoadedRecipe, given: Given, found: Shortlist, room: Room) -> Iterator[str]:
    if found.acceptable:
        smallest = _smallest(found)[0]
        yield from _other_hardware(loaded, given, smallest)
        yield from _other_budget(loaded, tried(loaded, given, smallest, ANY_ROOM))
    for term in _OPEN:
        alone = {model: misses[0] for model, misses in found.missed if [miss.term for miss in misses] == [term]}
        admitted = _at_shorter_length if term == "model_context" else _admitted
        yield from admitted(loaded, given, alone, room)


def _other_hardware(loaded: LoadedRecipe, given: Given, model: Model) -> Iterator[str]:
    """The ways out of the first stage of `model` that does not fit."""
    stages = contexts(loaded, with_model(loaded, given, model))
    for context in stages:
        if fit(context, loaded).chosen is None:
            others = [other for other in stages if other is not context]
            yield from (f"{way.proposal.told} ({model.name})" for way in ways_out(context, others, loaded))
            return


def _other_budget(loaded: LoadedRecipe, trial: Trial) -> Iterator[str]:
    """The limits that admit the smallest model, as its plan has them."""
    if trial.plan is None:
        return
    hours, usd, budget = trial.plan.seconds / 3600, trial.plan.cost_usd, loaded.recipe.budget
    if budget.max_hours is not None and hours > budget.max_hours:
        yield f"max_hours = {hours + 0.005:.2f}: {trial.model.name} takes {hours:.2f} hours"
    if budget.max_gpu_hours is not None and trial.plan.gpu_hours > budget.max_gpu_hours:
        taken = trial.plan.gpu_hours
        yield f"max_gpu_hours = {taken + 0.005:.2f}: {trial.model.name} takes {taken:.2f} GPU hours"
    if budget.max_cost_usd is not None and usd is None:
        yield f"price_per_gpu_hour in [budget]: no price of a {trial.plan.stages[0].value('gpu')} is known"
    elif budget.max_cost_usd is not None and usd is not None and usd > budget.max_cost_usd:
        yield f"max_cost_usd = {usd + 0.005:.2f}: {trial.model.name} costs ${usd:,.2f}"


def _admitted(loaded: LoadedRecipe, given: Given, alone: Mapping[Model, Miss], room: Room) -> Iterator[str]:
    """The first of the models that one term leaves out and that fits, with the change that admits it."""
    models = sorted(ordered(list(alone)), key=lambda model: _change(model, alone[model]))
    freed = _freed(loaded, alone[models[0]].term) if models else loaded
    for allowed in (room, ANY_ROOM):
        trial = first_to_fit(freed, given, models, allowed)
        if trial is not None:
            yield f"{alone[trial.model].admitted_by}: {trial.model.name} fits with {trial.summary}"
            return


def _freed(loaded: LoadedRecipe, term: str) -> LoadedRecipe:
    """The recipe with what admits a model that has no modules for its adapters: these cannot be planned as they are."""
    return with_adapters(loaded, *_FREE[term]) if term in _FREE else loaded


def _change(model: Model, miss: Miss) -> float:
    """How much a change asks: parameters; of families those with an open license come first."""
    by_term = {
        "model_max_params_billion": model.architecture.params,
        "model_family": model.licence not in OPEN_LICENCES,
    }
    return by_term.get(miss.term, 0)


def _at_shorter_length(loaded: LoadedRecipe, given: Given, alone: Mapping[Model, Miss], room: Room) -> Iterator[str]:
    """The longest max_length, by halves, at which one of the models fits that only their context leaves out."""
    length = _LONGEST
    while length >= _SHORTEST:
        wishes = {"data.max_length": Wish(length, "a shorter max_length")}
        holding = ordered([model for model in alone if model.architecture.max_position >= length])
        for allowed in (room, ANY_ROOM):
            trial = first_to_fit(loaded, given, holding, replace(allowed, wishes=wishes))
            if trial is not None:
                yield f"max_length = {length}: {trial.model.name} fits with {trial.summary}"
                return
        length //= 2
