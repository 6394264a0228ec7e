"""Try one model of the catalog: does a plan of this recipe with it fit, and within its limits?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from recipec.catalog.models import Model
from recipec.diagnostics.model import Report
from recipec.facts import Facts, Given, with_model
from recipec.planner.advice.limits import check_limits
from recipec.planner.plan import Plan
from recipec.planner.planner import contexts, plan_recipe, stage_plan
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish
from recipec.units import GIB


class Room(Struct, frozen=True):
    """What a model may take: of the weights' bits, of each device's memory, and whether of host memory."""

    base_bits: int  # 16: an unquantized base; 4: any
    memory_share: float
    offloads: bool = False
    wishes: Mapping[str, Wish] = field(default_factory=dict)  # changes of the recipe that are tried with it

    def __str__(self) -> str:
        base = "with a base in 16 bits or more" if self.base_bits == 16 else "with a base in 4 or 16 bits"
        return base if self.memory_share == 1 else f"in 1/{1 / self.memory_share:g} of the memory {base}"


_RANKED_GB = 16.0  # rule book 001 caps the rank of adapters under so much memory (LORA-001)
# Time grows with the parameters, but sharding a large model between cards can cost several times the arithmetic: our
# decision on how far from proportional it may be.
_TIME_SPREAD = 8.0
ANY_ROOM = Room(base_bits=4, memory_share=1.0, offloads=True)


class Trial(Struct, frozen=True):
    """A model that was tried."""

    model: Model
    obstacle: str  # why it cannot be taken; "" when it can
    peak: Candidate | None = None  # of the stages the one that takes most memory; None where one does not fit
    plan: Plan | None = None  # where a limit asked for it
    excess: float = 0.0  # how many times its limits in time and cost the plan takes

    @property
    def fits(self) -> bool:
        return not self.obstacle

    @property
    def summary(self) -> str:
        """How it fits: "LoRA in 18.3 GiB"."""
        assert self.peak is not None
        return f"{self.peak.adaptation} in {self.peak.memory.peak_device_bytes / GIB:.1f} GiB"


def first_to_fit(loaded: LoadedRecipe, given: Given, models: Iterable[Model], room: Room) -> Trial | None:
    """The trial of the first model that fits; after one far over the limits none is tried that is likely to be."""
    most_params = inf
    for model in models:
        if model.architecture.params <= most_params:
            trial = tried(loaded, given, model, room)
            if trial.fits:
                return trial
            if trial.excess > _TIME_SPREAD:
                most_params = min(most_params, model.architecture.params * _TIME_SPREAD / trial.excess)
    return None


def tried(loaded: LoadedRecipe, given: Given, model: Model, room: Room) -> Trial:
    """Fit every stage of the recipe with `model` into `room`, then hold its plan against [budget] and [policy]."""
    on_devices = not room.offloads and not loaded.is_set("train", "offload")
    if on_devices and (least := _weights_gib(model, room)) > (most := _devices_gib(given, room)):
        return Trial(model, f"its weights alone take {least:.1f} GiB of {most:g}")
    return tried_by_planning(loaded, given, model, room)


def tried_by_planning(loaded: LoadedRecipe, given: Given, model: Model, room: Room) -> Trial:
    """The same without the short way for a model whose weights alone are too large."""
    facts = with_model(loaded, given, model)
    if _has_limits(loaded):
        trial = _within_limits(loaded, facts, replace(room, memory_share=1.0))
        if not trial.fits or room.memory_share == 1:
            return trial
    return _fitted(model, _fits(loaded, facts, room))


def _fits(loaded: LoadedRecipe, facts: Facts, room: Room) -> list[tuple[Context, Fit]]:
    """Every stage in the room."""
    stages = (_within(stage, room) for stage in contexts(loaded, _in_room(facts, room)))
    return [(stage, fit(stage, loaded)) for stage in stages]


def _fitted(model: Model, fits: list[tuple[Context, Fit]]) -> Trial:
    """What the fits of all stages say of a model."""
    chosen = [found.chosen for _, found in fits if found.chosen is not None]
    if len(chosen) < len(fits):
        return Trial(model, next(_obstacle(found) for _, found in fits if found.chosen is None))
    return Trial(model, "", max(chosen, key=lambda candidate: candidate.memory.peak_allocated_bytes))


def _within_limits(loaded: LoadedRecipe, facts: Facts, room: Room) -> Trial:
    """Whether the model fits and keeps to the limits: first as it was fitted, then as the planner really plans it."""
    fits = _fits(loaded, facts, room)
    trial = _fitted(facts.model, fits)
    if not trial.fits:
        return trial
    trial = _limited(loaded, trial, Plan(tuple(stage_plan(*pair, loaded) for pair in fits)))
    plan = plan_recipe(loaded, facts, Report(), advised=False) if trial.fits else None
    return _limited(loaded, trial, plan) if plan is not None else trial


def _weights_gib(model: Model, room: Room) -> float:
    """The least that the weights take on all devices together."""
    return model.architecture.params * room.base_bits / 8 / GIB


def _devices_gib(given: Given, room: Room) -> float:
    return room.memory_share * given.gpu.memory_gib * given.machines.gpus


def _in_room(facts: Facts, room: Room) -> Facts:
    """The facts with the room's memory, and with adapters of the full rank: more memory must not mean less model."""
    gpu = replace(facts.gpu, memory_gib=room.memory_share * facts.gpu.memory_gib)
    total = facts.decisions["total_vram_gb"]
    ranked = replace(total, value=max(total.value, _RANKED_GB))
    return replace(facts, gpu=gpu, decisions={**facts.decisions, ranked.id: ranked})


def _within(context: Context, room: Room) -> Context:
    """The stage without what the room does not allow; what the recipe fixes stays as it is."""
    none = Wish("none", "the room of a trial")
    on_devices = {"train.offload": none, "train.activation_offload": Wish(False, "the room of a trial")}
    wishes = {} if room.offloads else on_devices
    wishes |= {"train.quantization": none} if room.base_bits == 16 else {}
    return replace(context, wishes={**wishes, **context.wishes, **room.wishes})


def _obstacle(found: Fit) -> str:
    if not found.tried:
        return found.bad[0].row.title if found.bad else "no strategy is left"
    closest = min(found.tried, key=lambda candidate: (bool(candidate.obstacle), candidate.over_bytes))
    peak, over = closest.memory.peak_allocated_bytes / GIB, closest.over_bytes / GIB
    return closest.obstacle or f"{closest.adaptation} {peak:.1f} GiB allocated, {over:.1f} over"


def _has_limits(loaded: LoadedRecipe) -> bool:
    budget = loaded.recipe.budget
    limits = (budget.max_hours, budget.max_gpu_hours, budget.max_cost_usd, loaded.recipe.policy.max_usd)
    return any(limit is not None for limit in limits)


def _limited(loaded: LoadedRecipe, trial: Trial, plan: Plan) -> Trial:
    """The trial with what its plan breaks of the recipe's limits."""
    report = Report()
    check_limits(loaded, trial.model.licence, plan, report)
    errors = [finding.title for finding in report.diagnostics if finding.code.startswith("E")]
    return replace(trial, obstacle=errors[0] if errors else "", plan=plan, excess=_excess(loaded, plan))


def _excess(loaded: LoadedRecipe, plan: Plan) -> float:
    budget, usd = loaded.recipe.budget, plan.cost_usd or 0.0
    pairs = (
        (plan.seconds / 3600, budget.max_hours),
        (plan.gpu_hours, budget.max_gpu_hours),
        (usd, budget.max_cost_usd),
        (usd, loaded.recipe.policy.max_usd),
    )
    return max(taken / limit for taken, limit in pairs if limit is not None)
