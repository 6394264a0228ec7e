"""What a finished plan must keep to: the budget, the policy, a learning rate that rises, what back ends can write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recipec.axes import METHODS, ROW_FORMATS
from recipec.catalog.models import Model
from recipec.catalog.prices import price
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts import Facts
from recipec.facts.data import DataFacts
from recipec.facts.model import has_template
from recipec.planner.advice.budget import NO_OTHERS, Others, check_budget, no_price
from recipec.planner.advice.change import Proposal, pins, quoted
from recipec.planner.advice.held_out import nothing_left
from recipec.planner.advice.keys import named_for
from recipec.planner.plan import Plan, StagePlan
from recipec.planner.search.nothing_learned import only_warmup, unfilled
from recipec.recipe import LoadedRecipe
from recipec.recipe.fields import OWN_TEMPLATES
from recipec.rules.core import Decision
from recipec.rules.evaluation import training_rows
from recipec.rules.intervals import generated
from recipec.units import counted, hourly

Decisions = Mapping[str, Decision]


def check_limits(
    loaded: LoadedRecipe, licence: str | None, plan: Plan, report: Report, others: Others = NO_OTHERS
) -> None:
    """Report what breaks [budget] (E0403), with the `others` that keep to it, and [policy] (E0404)."""
    check_budget(loaded, plan, report, others)
    _policy(loaded, licence, plan, report)


def check_stages(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report stages that would learn nothing: without a row (E0205), without a learning rate (E0411)."""
    for stage in plan.stages:
        for finding in nothing_left(loaded, stage, section_of(loaded, stage)):
            report.add(finding)
        check_learning(loaded, stage.stage.name, stage.steps, stage.decisions, report)


def check_terms(loaded: LoadedRecipe, facts: Facts, report: Report) -> None:
    """Report what shows without a plan: a license that [policy] does not allow (E0404), a missing price (E0403)."""
    _license(loaded, (loaded.place("model", "name"), "its license", facts.model.licence), report)
    if loaded.recipe.budget.max_cost_usd is not None and facts.decisions["gpu_price"].value is None:
        no_price(loaded, report)


def check_judges(loaded: LoadedRecipe, facts: Facts, report: Report) -> None:
    """Report reward models whose license [policy] does not allow (E0404)."""
    for judge in facts.rewards.models:
        _license(loaded, (judge.place, f"the license of {judge.model.name}", judge.model.licence), report)


def check_templates(loaded: LoadedRecipe, plan: Plan, facts: Facts, report: Report) -> None:
    """Report what rows carry and recipec's own chat templates do not write, and answers that nothing ends (E0401)."""
    data = facts.data
    for stage in [stage for stage in plan.stages if _lacks_its_end(stage)][:1]:
        report.add(_without_end(loaded, facts.model, stage))
    for stage in plan.stages:
        if _never_stops(facts.model, stage, data[section_of(loaded, stage)]):
            report.add(_unended(loaded, facts.model, stage))
        template, thoughts = stage.decisions["template"].value, stage.decisions["reasoning"].value
        carries, section = data[section_of(loaded, stage)].shape.carries, section_of(loaded, stage)
        named_thoughts = "reasoning" in (loaded.recipe.data.carry or ()) and thoughts == ""  # rows bring them later
        lost = {
            "tools and calls": "tools" in carries,
            "thoughts": "reasoning" in carries and (named_thoughts or thoughts in ("keep", "template")),
        }
        if template in OWN_TEMPLATES and thoughts == "off":
            report.add(no_mode(loaded, f"`{template}`"))
        named = [name for name, has in lost.items() if has]
        if template in OWN_TEMPLATES and named:
            place = ("carry",) if named_thoughts and named == ["thoughts"] else (section,)
            label = Label(loaded.place("data", *place), f"rows with {' and '.join(named)}")
            help = (*_template_instead(facts.model, named),)
            help += ('to train without thoughts: `reasoning = "strip"` under [data]',) * (named == ["thoughts"])
            title = f"the chat template `{template}` does not write {' and '.join(named)}"
            report.add(Diagnostic("E0401", title, (label,), help))


def _template_instead(model: Model, lost: list[str]) -> Iterator[str]:
    """The model's own chat template where it is known to write what is lost, and others."""
    own = model.template
    if own and all({"tools and calls": own.tools, "thoughts": own.empty_thought}[name] for name in lost):
        yield f'use the chat template of {model.name}, which writes them: `template = "model"` under [data]'
    yield (
        'name a template that writes them: `template = "./your.jinja"` under [data], or take a model whose chat '
        f"template writes {' and '.join(lost)}"
    )


def no_mode(loaded: LoadedRecipe, template: str) -> Diagnostic:
    """A template without thoughts has no mode in which they are left out."""
    label = Label(
        loaded.place("data", "reasoning"), "answers without thoughts, in the template's mode without thinking"
    )
    help = (
        "remove `reasoning`: this template writes no empty thought",
        'to take thoughts out of the rows: `reasoning = "strip"`',
    )
    title = f"the chat template {template} does not write a mode without thinking"
    return Diagnostic("E0401", title, (label,), help)


def _never_stops(model: Model, stage: StagePlan, data: DataFacts) -> bool:
    """Whether answers are learned without a token that ends them, as only TRL's mask of conversations brings one."""
    method, decided = METHODS[stage.stage.name], stage.decisions
    learns = method.writes and not method.generates and ROW_FORMATS[data.shape.format].turns
    unended = model.template is not None and model.template.unended and decided["template"].value == "model"
    return learns and unended and decided["loss_on"].value != "assistant"


def _unended(loaded: LoadedRecipe, model: Model, stage: StagePlan) -> Diagnostic:
    label = Label(loaded.place("data", section_of(loaded, stage)), "prompts and answers are apart")
    return Diagnostic(
        "E0401",
        f"the chat template of {model.name} does not end the last answer, so the model would not learn to stop",
        (label,),
        (
            "train on conversations with a mask, without a key of [data] that makes a row of each answer",
            'or set `template = "chatml"` under [data]',
        ),
        ("TRL's training version ends answers with the role of the next turn; it is used for conversations alone",),
    )


def _lacks_its_end(stage: StagePlan) -> bool:
    """Whether answers end with a token that the model's tokenizer is known to lack."""
    decided, method = stage.decisions, METHODS[stage.stage.name]
    brought = decided["template"].value not in ("model", "none")
    return brought and method.writes and decided["has_turn_end"].value is False


def _without_end(loaded: LoadedRecipe, model: Model, stage: StagePlan) -> Diagnostic:
    end, template = stage.decisions["template_end"].value, stage.decisions["template"].value
    has = stage.decisions["has_turn_end"]
    own = 'its own chat template, `template = "model"`' if has_template(model) else '`template = "plain"`'
    title = f"the chat template `{template}` ends turns with {end}, and {model.name} has no such token"
    label = Label(loaded.place("data", "template"), has.because)
    adding = f'or add it to the vocabulary: `new_tokens = ["{end}"]` under [model]'
    help = (f"use {own} under [data]", *[adding] * METHODS[stage.stage.name].learns_tokens)
    note = f"the tokenizer would cut {end} into several tokens, and the model would not learn to stop"
    return Diagnostic("E0401", title, (label,), help, (note, *[f"source: {has.source}"] * bool(has.source)))


def _policy(loaded: LoadedRecipe, licence: str | None, plan: Plan, report: Report) -> None:
    policy = loaded.recipe.policy
    for licensed in ((loaded.place("model", "name"), "its license", licence), *_licenses_beside(loaded, plan)):
        _license(loaded, licensed, report)
    if policy.max_usd is not None and plan.cost_usd is None:
        _broken(
            loaded,
            loaded.place("hardware"),
            "its cost is unknown without `budget.price_per_gpu_hour`",
            "max_usd",
            report,
        )
    elif policy.max_usd is not None and plan.cost_usd > policy.max_usd:
        costs = f"the plan costs ${plan.cost_usd:,.2f}, the limit is ${policy.max_usd:,.2f}"
        _broken(loaded, loaded.place("hardware"), costs, "max_usd", report)
    elif policy.max_usd is not None:
        _lifted_by_a_price(loaded, plan, policy.max_usd, report)


def _lifted_by_a_price(loaded: LoadedRecipe, plan: Plan, most_usd: float, report: Report) -> None:
    """Report a plan that keeps to the limit only at a price that the file with the limit does not state."""
    stated = next((key for key in ("price_per_gpu_hour", "prices") if loaded.is_set("budget", key)), "")
    usual = price(plan.stages[0].decisions["gpu"].value)
    if not stated or usual is None or usual.usd_per_hour * plan.gpu_hours <= most_usd:
        return
    own, limit = loaded.place("budget", stated), loaded.place("policy", "max_usd")
    if own.file == limit.file:
        return
    costs = (
        f"${usual.usd_per_hour * plan.gpu_hours:,.2f} at the catalog's price of {hourly(usual.usd_per_hour)} an hour"
    )
    labels = (Label(own, f"not the price of the policy: {costs}"), Label(limit, "the limit"))
    help = (f"change the recipe to meet the limit, or let the policy's file state `budget.{stated}`",)
    report.add(Diagnostic("E0404", f"the plan breaks `policy.max_usd`: it costs {costs}", labels, help))


Licensed = tuple[Place, str, str | None]  # where a model is named, "its license", and that


def _license(loaded: LoadedRecipe, licensed: Licensed, report: Report) -> None:
    (place, its, known), allowed = licensed, loaded.recipe.policy.licenses
    if allowed is not None and (known or "").casefold() not in map(str.casefold, allowed):
        found = f"{its} is {known}" if known else f"the catalog does not know {its}"
        _broken(loaded, place, found, "licenses", report)


def _licenses_beside(loaded: LoadedRecipe, plan: Plan) -> Iterator[Licensed]:
    """Where the recipe names the models that run beside the trained one, and their licenses."""
    for stage in plan.stages:
        for role in METHODS[stage.stage.name].named_models:
            yield (
                loaded.place("alignment", role),
                f"the license of the {role}",
                stage.decisions[f"{role}_license"].value,
            )


def _broken(loaded: LoadedRecipe, place: Place, found: str, limit: str, report: Report) -> None:
    labels = (Label(place, found), Label(loaded.place("policy", limit), "the limit"))
    help = ("change the recipe to meet the limit, or ask the owner of the policy",)
    report.add(Diagnostic("E0404", f"the plan breaks `policy.{limit}`: {found}", labels, help))


def section_of(loaded: LoadedRecipe, stage: StagePlan) -> str:
    """The section of [data] that holds the rows of a stage."""
    return _section(loaded, stage.stage.name)


def _section(loaded: LoadedRecipe, stage: str) -> str:
    own = METHODS[stage].section
    return METHODS[stage].rows_in([own] if loaded.is_set("data", own) else [])


def check_learning(loaded: LoadedRecipe, stage: str, steps: int, decisions: Decisions, report: Report) -> None:
    """Report a stage that would learn nothing (E0411)."""
    if unfilled(stage, decisions):
        _answers(loaded, stage, decisions, report)
    elif only_warmup(steps, decisions):
        _one_step(loaded, stage, decisions, report)


def _one_step(loaded: LoadedRecipe, name: str, decisions: Decisions, report: Report) -> None:
    limited = decisions["max_steps"].origin == "recipe"
    written = loaded.written_for(name, "train.max_steps") if limited else ("data", _section(loaded, name))
    place = loaded.place(*written)
    label = Label(place, f"stage {name} takes one step, and its learning rate is 0")
    without = named_for("or set `train.warmup = 0`", name, decisions["stages"].value, loaded)
    help = ("take more steps: more rows or epochs, or a smaller batch", without)
    note = "the warmup begins at 0 and takes at least one step; the trained weights would be those of the start"
    report.add(Diagnostic("E0411", "nothing would be learned", (label,), help, (note,)))


def _answers(loaded: LoadedRecipe, stage: str, decisions: Decisions, report: Report) -> None:
    """A generation that the prompts do not fill: TRL would end after 0 steps, without an error."""
    value = {id: decision.value for id, decision in decisions.items()}
    each, updates = value.get("per_prompt", 1), value.get("updates", 1)
    prompts, needed = training_rows(value), generated(value) // each
    label = Label(loaded.place("data", _section(loaded, stage)), f"{prompts:,} prompts are left to train on")
    most = prompts * each // updates
    lower = named_for("`train.global_batch_size`", stage, value["stages"], loaded)
    help = (f"lower {lower} to {most:,} or less, or give more prompts" if most else "give more prompts",)
    note = f"one generation answers {needed:,} prompts, {counted(each, 'time')} each"
    report.add(Diagnostic("E0411", "nothing would be learned", (label,), help, (note,)))


def check_buildable(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report the stages whose layers are spread over ranks: they can be planned, not built."""
    for stage in plan.stages:
        if not stage.layout.can_be_built:
            report.add(_not_built(loaded, stage))


def _not_built(loaded: LoadedRecipe, stage: StagePlan) -> Diagnostic:
    mesh = stage.layout.mesh
    groups = (("tensor", mesh.tensor), ("context", mesh.context), ("expert", mesh.expert))
    used = [f"`train.{name}_parallel = {ranks}`" for name, ranks in groups if ranks > 1]
    pinned = [f"{key}_parallel" for key, ranks in groups if ranks > 1 and loaded.is_set("train", f"{key}_parallel")]
    place = loaded.place("train", pinned[0]) if pinned else loaded.place("hardware")
    label = Label(place, f"stage {stage.stage.label} uses {' and '.join(used)}")
    note = "bundles must resume, and transformers 5.23 cannot resume a model that is split at load (NOT-008)"
    free = (f"remove {quoted([f'train.{key}' for key in pinned])}",) if pinned else ()
    return Diagnostic(
        "E0410", "model parallelism can be planned but not built yet", (label,), (*free, *_instead(stage)), (note,)
    )


def _instead(stage: StagePlan) -> list[str]:
    """The fastest alternative that can be built, states on the device if possible; the plan can still be read."""
    usable = [other for other in stage.rejected if other.is_open]
    best = min(usable, key=lambda other: (other.layout.offloads, other.seconds), default=None)
    found = []
    if best is not None:
        effect = f"{best.family} fits and can be built"
        found.append(Proposal(pins(best.layout), effect, stage.layout, best.layout).told)
    return [*found, "run `recipec plan` for the figures of the plan"]
