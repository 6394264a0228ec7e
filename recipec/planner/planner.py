"""Plan a recipe: the stages, and for each the first acceptable adaptation with a layout that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import Any

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.diagnostics.model import Report
from recipec.estimate.cost import Cost
from recipec.estimate.storage import HostMemory
from recipec.facts import Facts, rows_read_by
from recipec.facts.data import preference_format, train_format
from recipec.planner.advice.assumed import more_host_memory, other_networks
from recipec.planner.advice.budget import broken
from recipec.planner.advice.change import Change
from recipec.planner.advice.deciding_keys import deciding_key
from recipec.planner.advice.idle import idle_gpus, roomier
from recipec.planner.advice.keys import named_for
from recipec.planner.advice.less_waiting import less_waiting
from recipec.planner.advice.limits import check_learning
from recipec.planner.advice.mending import avoiding, known_to_fail, unrefused
from recipec.planner.advice.new_domain import left_to_learn
from recipec.planner.advice.on_fewer import on_fewer_nodes, on_one_node, on_used
from recipec.planner.advice.options import with_options
from recipec.planner.advice.own_batch import own_batch
from recipec.planner.advice.packed_rows import mask_costs
from recipec.planner.advice.rejected import (
    activations_kept,
    does_not_fit,
    idle,
    preferred_but_passed_over,
    rejected,
    ruled_out,
)
from recipec.planner.advice.smaller_states import tight
from recipec.planner.advice.too_small import BATCHES, too_small
from recipec.planner.advice.unquantized import unquantized
from recipec.planner.advice.waiting import shorter_waits
from recipec.planner.advice.ways_out import Conditions
from recipec.planner.outcome import record_prediction
from recipec.planner.plan import OnFewer, Plan, Rejected, Selection, Stage, StagePlan
from recipec.planner.runs import runs_of, settled_run, whole_runs
from recipec.planner.search.bounds import Bounds, bounds_of
from recipec.planner.search.candidates import usable_bytes
from recipec.planner.search.context import Context, settle
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.known_bad import refused
from recipec.planner.search.measures import beside_shared
from recipec.planner.search.nothing_learned import total_steps
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.recipe.load import LAST_STAGE_ONLY
from recipec.rules import goal
from recipec.rules.core import Decision, Ledger
from recipec.rules.words import device
from recipec.units import GIB


def plan_recipe(
    loaded: LoadedRecipe,
    facts: Facts,
    report: Report,
    selection: Selection | None = None,
    beside: Sequence[Context] = (),
    advised: bool = True,
) -> Plan | None:
    """The plan of a recipe; None with a diagnostic when a stage cannot run on the hardware. Where a key of a stage is
    refused and the rest can be planned, the plan is that without it: what else is wrong shows in the same run.

    `selection` says how the model was chosen, where the recipe does not name it; `beside` are the stages of its other
    tasks, which must fit as well where something is changed. Not `advised`: without what no diagnostic tells.
    """
    given = contexts(loaded, facts)
    found: list[StagePlan] = []
    for context in given:
        before = next((one.layout.adapts for one in found if one.stage.name == context.stage.starts_from), None)
        plan = _plan_stage(replace(context, before=before), [*given, *beside], loaded, report, advised)
        found += [plan] if plan is not None else []
    return Plan(tuple(found), selection) if len(found) == len(given) else None


def contexts(loaded: LoadedRecipe, facts: Facts) -> list[Context]:
    """Every stage that runs, in order, with everything that is given for it."""
    ledger, stages = _stages(loaded, facts)
    goals = tuple(ledger.decisions.values())
    return [_context(loaded, facts, goals, stage, stages) for stage in stages]


def _stages(loaded: LoadedRecipe, facts: Facts) -> tuple[Ledger, list[Stage]]:
    """The stages that run, and the decisions that say so."""
    ledger = Ledger(loaded.wishes("", last=True))
    task, held = facts.decisions["task"], train_format(facts.data)
    preferred = ledger.record(preference_format(facts.data))
    method = ledger.decide(goal.alignment_method, task, preferred, facts.decisions["kl_control"])
    given = facts.decisions["has_reward"], facts.decisions["data_sections"]
    names = ledger.decide(goal.stages, task, held, preferred, method, *given).value
    mixes = loaded.mixes if loaded.mix else ()
    of_task = {"task": loaded.task, "mixes": mixes, "combined": loaded.combined}
    return ledger, [replace(stage, **of_task) for stage in _in_order(names)]


def _in_order(names: Sequence[str]) -> Iterator[Stage]:
    """Each stage goes on from the one before it; what judges the last one's answers is none of its starts."""
    judge = next((judge for name in names if (judge := METHODS[name].judge) in names), "")
    start = None
    for name in names:
        yield Stage(name, start, judge if METHODS[name].judge == judge else "")
        start = start if name == judge else name


_OVERFLOW = ("data", "overflow")  # drops or cuts rows with answers: a stage of raw text before them keeps all of it


def _context(
    loaded: LoadedRecipe, facts: Facts, goals: tuple[Decision, ...], stage: Stage, stages: list[Stage]
) -> Context:
    wishes, method = loaded.wishes(stage.name, last=stage is stages[-1]), METHODS[stage.name]
    if method.of_text and stage is not stages[-1] and loaded.value(*_OVERFLOW) != "split":
        wishes = {key: wish for key, wish in wishes.items() if key != ".".join(_OVERFLOW)}
    domain = left_to_learn(facts.decisions["new_domain"], stage, stages)
    facts = replace(facts, decisions={**facts.decisions, domain.id: domain})
    goals = goals if method.earns else tuple(map(_watched_by_losses, goals))
    rows = rows_read_by(method, facts)
    if facts.adapter is None or stage is not stages[0]:
        return Context(stage, goals, facts, rows, wishes, None)
    fact = facts.adapter.fact(loaded)
    return Context(stage, (*goals, fact), facts, rows, facts.adapter.wishes(wishes), None)


def _watched_by_losses(decision: Decision) -> Decision:
    """What decided the stages, with what to watch in one that logs no rewards."""
    rules = {rule.decides: rule for rule in (goal.alignment_method, goal.stages)}
    return replace(decision, watch=rules[decision.id].watch) if decision.id in rules else decision


def _plan_stage(
    context: Context, given: list[Context], loaded: LoadedRecipe, report: Report, advised: bool
) -> StagePlan | None:
    others = [other for other in given if other.stage is not context.stage]
    if (refused_batch := too_small(context, loaded)) is not None:
        report.add(refused_batch)
        context = _without(context, BATCHES)
    found = beside_shared(context, fit(context, loaded), loaded)
    if found.chosen is None or found.ledger is None:
        _report_misfit(context, others, loaded, found, report)
        return None
    plan = stage_plan(context, found, loaded, given)
    bad = refused(plan.layout, plan.decisions, context.facts.model.architecture, plan.work)
    if bad is not None:  # what only the settled intervals show
        report.add(known_to_fail(loaded, context, others, [bad], _terms(loaded)))
    if (decides := deciding_key(context, found, loaded)) is not None:
        report.add(decides)
    runs = runs_of(context, Cost(plan.run_seconds, plan.cost_usd, ""), loaded, given)
    ours = (context, found, loaded, runs)
    plan = replace(plan, unquantized=unquantized(*ours), less_waiting=less_waiting(*ours))
    return with_options(context, others, found, loaded, runs, plan) if advised else plan


def _without(context: Context, keys: Sequence[str]) -> Context:
    return replace(context, wishes={key: wish for key, wish in context.wishes.items() if key not in keys})


def _report_misfit(context: Context, others: list[Context], loaded: LoadedRecipe, found: Fit, report: Report) -> None:
    """Report that no layout fits (E0402) or is supported (E0405), and what else is known of the stage without one."""
    if not found.tried:
        report.add(known_to_fail(loaded, context, others, found.bad, _terms(loaded)))
    layout = next((other.layout for other in (*found.tried, *found.bad)), None)
    if layout is None:
        return
    settled, shape = settle(context, layout.adapts.name, ""), context.facts.model.architecture
    decisions, work, intervals = settled.decisions, work_of(settled, context.facts), _intervals(context)
    bad = refused(layout, decisions | intervals, shape, work) if found.tried else None
    uneven = [bad] if bad and intervals and bad.mended_by("asked_save_every") else []
    _report_too_large(context, others, loaded, found, report)
    if uneven:
        report.add(known_to_fail(loaded, context, others, uneven, _terms(loaded)))
    steps = total_steps(context.wishes, decisions, decisions["global_batch_size"].value)
    check_learning(loaded, context.stage.name, steps, decisions, report)


def _report_too_large(
    context: Context, others: list[Context], loaded: LoadedRecipe, found: Fit, report: Report
) -> None:
    """Report that the stage does not fit, or would not without what is refused of it (E0402). What mends that, here or
    of another stage, is part of each change that is proposed."""
    mended = unrefused(context, loaded, found)
    if mended is None:
        return
    change, changed = mended
    tried = found if changed is context else fit(changed, loaded)
    if tried.chosen is not None:
        return
    beside = [(other, unrefused(other, loaded, fit(other, loaded))) for other in others]
    held, refused = [each for _, each in beside if each], [other for other, each in beside if not each]
    change = reduce(Change.joined, (each for each, _ in held), change)
    terms = _terms(loaded, change, refused)
    report.add(does_not_fit(changed, [each for _, each in held], loaded, tried, terms))


def _intervals(context: Context) -> dict[str, Decision]:
    """What the recipe says of saves and evaluations, which is settled with the number of steps."""
    wishes = {name: context.wishes.get(f"train.{name}") for name in ("eval_every", "save_every")}
    if not all(wishes.values()):
        return {}
    return {name: Decision(name, wish.value, "", origin="recipe") for name, wish in wishes.items() if wish}


def _terms(loaded: LoadedRecipe, *beside: Any) -> Conditions:
    """What is told of every change that is proposed: its whole run, and what that breaks of the budget."""
    return Conditions(partial(broken, loaded), whole_runs, *beside)


def _crowds_host(host: HostMemory, bounds: Bounds, facts: Facts) -> bool:
    """Whether a node may have too little host memory for many rows, which no layout takes less of."""
    return facts.gpu.kind != "cpu" and bounds.host_bytes is not None and host.needed_bytes > bounds.host_bytes


def stage_plan(context: Context, found: Fit, loaded: LoadedRecipe, given: Sequence[Context] = ()) -> StagePlan:
    """The plan of a stage that fits: its layout and what follows from it are written into its ledger.

    `given` are all stages that share its budget, or none where it is the only one.
    """
    assert found.chosen is not None and found.ledger is not None
    facts, ledger, chosen = context.facts, found.ledger, found.chosen
    _explain_adaptation(ledger, found, facts)
    own_batch(context, ledger, loaded)
    mask_costs(context, found, ledger, loaded)
    bounds = bounds_of(context, ledger, loaded)
    run, cost = settled_run(context, found, loaded, bounds)
    assert chosen.time is not None
    steps, needs, parts = run.steps, run.needs, run.parts
    seconds = steps * (chosen.time.seconds_per_step + chosen.reference_seconds)
    others = _not_taken(context, found, bounds, seconds)
    record_prediction(ledger, chosen, parts, cost.usd, needs, others)
    ours = (context, found, loaded, runs_of(context, cost, loaded, given))
    unused = idle_gpus(*ours)
    verbatim = context.wishes.get("train.arguments")
    return StagePlan(
        stage=context.stage,
        layout=chosen.layout,
        work=work_of(ledger, facts),
        decisions=_named_for_stage(ledger, context.stage.name, loaded),
        memory=chosen.memory,
        usable_bytes=usable_bytes(facts.gpu, chosen.layout.mesh.world_size),
        capacity_bytes=int(facts.gpu.memory_gib * GIB),
        tight=tight(facts.gpu, chosen),
        time=chosen.time,
        steps=steps,
        seconds=seconds,
        reference_seconds=steps * chosen.reference_seconds,
        parts=parts,
        cost_usd=cost.usd,
        cost_because=cost.because,
        needs=needs,
        crowds_host=chosen.crowds_host or _crowds_host(needs.host, bounds, facts),
        work_for_idle=unused.ways,
        idle_because=unused.because,
        on_used=on_used(*ours) if unused.because else OnFewer(),
        on_one_node=on_one_node(*ours),
        on_fewer_nodes=on_fewer_nodes(*ours),
        roomier=roomier(context, found, loaded),
        more_host_memory=more_host_memory(facts, chosen, found.tried),
        other_networks=other_networks(context, found, loaded, bounds),
        shorter_waits=shorter_waits(*ours, bounds),
        avoiding=avoiding(context, found, loaded),
        verbatim={} if verbatim is None else verbatim.value,
        rejected=tuple(others),
        next_micro_batch=run.against.micro_batch,
    )


def _not_taken(context: Context, found: Fit, bounds: Bounds, seconds: float) -> list[Rejected]:
    """What else was looked at, with why it was not taken; `seconds` are those of the chosen layout."""
    assert found.chosen is not None and found.ledger is not None
    ledger, chosen = found.ledger, found.chosen
    rows = rejected(found, chosen, seconds, context.wishes.get("train.adaptation"))
    told = [row.layout for row in rows]
    return [
        *rows,
        *(row for row in idle(context, ledger, chosen, found.tried, seconds) if row.layout not in told),
        *activations_kept(context, ledger, chosen, bounds, seconds),
        *(ruled_out(context.stage.name, refusal) for refusal in found.ruled_out),
    ]


def _named_for_stage(ledger: Ledger, stage: str, loaded: LoadedRecipe) -> dict[str, Decision]:
    """The decisions with the keys of the recipe."""
    stages, named = ledger.decisions["stages"].value, ("key", "because", "watch", "dissent")
    found = {
        id: replace(decision, **{name: named_for(getattr(decision, name), stage, stages, loaded) for name in named})
        for id, decision in ledger.decisions.items()
    }
    last = stages[-1]
    return found if stage == last else {id: _beside_last(each, loaded, last) for id, each in found.items()}


def _beside_last(decision: Decision, loaded: LoadedRecipe, last: str) -> Decision:
    """A decision of an earlier stage, with what the recipe sets for the last one alone."""
    section, _, name = decision.key.partition(".")
    name = name.rpartition(".")[2]
    limited = name in LAST_STAGE_ONLY if section == "train" else (section, name) == _OVERFLOW
    if not limited or not loaded.is_set(section, name) or decision.where:
        return decision
    told = f"what {loaded.where(section, name)} sets is for the last stage, {last}"
    return replace(decision, because=f"{decision.because}; {told}")


def _explain_adaptation(ledger: Ledger, found: Fit, facts: Facts) -> None:
    """Where the rules prefer another adaptation, its obstacle is the reason for the chosen one."""
    noun = device(facts.decisions["gpu_is_cpu"].value)
    decision = ledger.decisions["adaptation"]
    if why := preferred_but_passed_over(found, facts.gpu, noun):
        stated = "" if decision.origin == "planner" else f"{decision.because}; "
        ledger.decisions[decision.id] = replace(decision, because=f"{stated}{why}")
