"""What a finished plan must keep to: the budget, the policy, a learning rate that rises, what back ends can write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from recipec.axes import COMMON_SECTION, METHODS, ROW_FORMATS, SECTIONS, Method, sections_of
from recipec.catalog.models import Model
from recipec.catalog.prices import price
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.facts import Facts
from recipec.facts.data import DataFacts
from recipec.facts.model import has_template
from recipec.layout import Layout
from recipec.planner.advice.change import Change, Proposal
from recipec.planner.advice.held_out import nothing_left
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import KL_CONTROL, either, own_keys
from recipec.recipe.fields import OWN_TEMPLATES
from recipec.recipe.schema_training import of_stage
from recipec.rules.core import Decision
from recipec.rules.evaluation import training_rows
from recipec.rules.intervals import generated
from recipec.units import counted, duration, hourly

Fewer = Callable[[], Plan | None]
Decisions = Mapping[str, Decision]


def check_limits(
    loaded: LoadedRecipe, licence: str | None, plan: Plan, report: Report, fewer: Fewer = lambda: None
) -> None:
    """Report what breaks [budget] (E0403) and [policy] (E0404).

    `fewer` plans the same rows without a reward model; None where the plan trains none.
    """
    check_budget(loaded, plan, report, fewer)
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
        _no_price(loaded, report)


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
        lost = {
            "tools and calls": "tools" in carries,
            "thoughts": "reasoning" in carries and thoughts in ("keep", "template"),
        }
        if template in OWN_TEMPLATES and thoughts == "off":
            report.add(no_mode(loaded, f"`{template}`"))
        named = [name for name, has in lost.items() if has]
        if template in OWN_TEMPLATES and named:
            label = Label(loaded.place("data", section), f"rows with {' and '.join(named)}")
            help = ('name a template that writes them: `template = "./your.jinja"` under [data], or take a chat model',)
            help += ('to train without thoughts: `reasoning = "strip"` under [data]',) * (named == ["thoughts"])
            title = f"the chat template `{template}` does not write {' and '.join(named)}"
            report.add(Diagnostic("E0401", title, (label,), help))


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


def check_budget(loaded: LoadedRecipe, plan: Plan, report: Report, fewer: Fewer = lambda: None) -> None:
    """Report what takes more than [budget] allows (E0403), with the plan of fewer stages where there is one."""
    budget = loaded.recipe.budget
    hours, usd = plan.seconds / 3600, plan.cost_usd
    if budget.max_hours is not None and hours > budget.max_hours:
        share = budget.max_hours / hours
        takes = "the plan takes {}, the limit is {}".format(*_apart(plan.seconds, 3600 * budget.max_hours))
        _over(loaded, plan, "max_hours", takes, share, fewer, report)
    if budget.max_gpu_hours is not None and plan.gpu_hours > budget.max_gpu_hours:
        takes = f"the plan takes {plan.gpu_hours:,.3f} GPU hours, the limit is {budget.max_gpu_hours:,g}"
        _over(loaded, plan, "max_gpu_hours", takes, budget.max_gpu_hours / plan.gpu_hours, fewer, report)
    if budget.max_cost_usd is not None and usd is None:
        _no_price(loaded, report)
    elif budget.max_cost_usd is not None and usd is not None and usd > budget.max_cost_usd:
        cents = 2 if round(usd, 2) > round(budget.max_cost_usd, 2) else 6
        costs = f"the plan costs ${usd:,.{cents}f}, the limit is ${budget.max_cost_usd:,.{cents}f}"
        _over(loaded, plan, "max_cost_usd", costs, budget.max_cost_usd / usd, fewer, report)


def _no_price(loaded: LoadedRecipe, report: Report) -> None:
    label = Label(loaded.place("budget", "max_cost_usd"), "no price to compare with")
    help = ("set `budget.price_per_gpu_hour`, or name a table of prices in `budget.prices`",)
    report.add(Diagnostic("E0403", "the budget cannot be checked: no price is known for this GPU", (label,), help))


def _apart(taken_seconds: float, limit_seconds: float) -> tuple[str, str]:
    """Two times as text, in seconds where they would read alike."""
    texts = duration(taken_seconds), duration(limit_seconds)
    return texts if texts[0] != texts[1] else (f"{taken_seconds:,.1f} s", f"{limit_seconds:,.1f} s")


def _over(loaded: LoadedRecipe, plan: Plan, key: str, message: str, share: float, fewer: Fewer, report: Report) -> None:
    label = Label(loaded.place("budget", key), message)
    names = dict.fromkeys(stage.stage.name for stage in plan.stages)
    several = [f".{name}" for name in names] if len(names) > 1 else [""]
    epochs = " or ".join(f"`train{stage}.epochs`" for stage in several)
    smaller = f"lower {epochs}, use fewer rows or take a smaller model"
    ways = (*_in_fewer_stages(loaded, fewer()), *_within(plan, share), smaller)
    report.add(Diagnostic("E0403", f"over budget: {message}", (label,), ways))


def _in_fewer_stages(loaded: LoadedRecipe, other: Plan | None) -> tuple[str, ...]:
    """The plan of the method that learns from the pairs themselves, with its figures, and whether it is in budget."""
    if other is None:
        return ()
    over = Report()
    check_budget(loaded, other, over)
    method = METHODS[other.stages[-1].stage.name]
    price = "" if other.cost_usd is None else f" and ${other.cost_usd:,.2f}"
    over_too = ", still over the budget" * over.has_errors
    why = f"{method.name.upper()} learns from the pairs without a reward model"
    return (f"{_setting(loaded, method)}: {why} and takes {duration(other.seconds)}{price}{over_too}",)


def _setting(loaded: LoadedRecipe, method: Method) -> str:
    """What makes the method run in place of another: its name, without what only the other one reads."""
    level = " in place of `alignment.kl_control`" if loaded.asks_method == KL_CONTROL else ""
    idle = [f"data.{name}" for name in SECTIONS if name not in (COMMON_SECTION, *sections_of([method]))]
    written = [name for name in idle if loaded.is_set(*name.split("."))]
    asked = own_keys({**(loaded.value("alignment") or {}), "method": None, "kl_control": None})
    written += [f"alignment.{key}" for key, value in asked if value is not None and not method.can_set(key, value)]
    removed = f" and remove {either(written, '`', 'and')}" if written else ""
    return f'set `alignment.method = "{method.alignment}"`{level}{removed}'


def _within(plan: Plan, share: float) -> tuple[str, ...]:
    """The first alternative of a stage with which the plan takes no more than `share` of its time, hence cost."""
    for stage in plan.stages:
        for other in stage.rejected:
            if not other.is_open:
                continue
            seconds = plan.seconds - stage.seconds + other.seconds
            if seconds <= share * plan.seconds:
                return (
                    Proposal(
                        pins(other.layout), f"{other.family} takes {duration(seconds)}", stage.layout, other.layout
                    ).told,
                )
    return ()


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


def for_stage(text: str, stage: StagePlan) -> str:
    """A hint whose keys hold for this stage alone, where there are several."""
    return of_stage(text, stage.stage.name) if len(stage.decisions["stages"].value) > 1 else text


def section_of(loaded: LoadedRecipe, stage: StagePlan) -> str:
    """The section of [data] that holds the rows of a stage."""
    return _section(loaded, stage.stage.name)


def _section(loaded: LoadedRecipe, stage: str) -> str:
    own = METHODS[stage].section
    return METHODS[stage].rows_in([own] if loaded.is_set("data", own) else [])


def learns_nothing(stage: str, steps: int, decisions: Decisions) -> bool:
    """Whether prompts fill no generation, or one step is all warmup, whose rate is 0 (E0411)."""
    return _unfilled(stage, decisions) or _only_warmup(steps, decisions)


def _only_warmup(steps: int, decisions: Decisions) -> bool:
    """The trainer rounds the warmup up to whole steps, and the first one's rate is 0: a single step learns nothing."""
    return steps == 1 and decisions["warmup"].value > 0


def check_learning(loaded: LoadedRecipe, stage: str, steps: int, decisions: Decisions, report: Report) -> None:
    """Report a stage that would learn nothing (E0411)."""
    if _unfilled(stage, decisions):
        _answers(loaded, stage, decisions, report)
    elif _only_warmup(steps, decisions):
        _one_step(loaded, stage, decisions, report)


def _one_step(loaded: LoadedRecipe, name: str, decisions: Decisions, report: Report) -> None:
    limited = decisions["max_steps"].origin == "recipe"
    written = loaded.written_for(name, "train.max_steps") if limited else ("data", _section(loaded, name))
    place = loaded.place(*written)
    label = Label(place, f"stage {name} takes one step, and its learning rate is 0")
    without = "or set `train.warmup = 0`"
    without = of_stage(without, name) if len(decisions["stages"].value) > 1 else without
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
    lower = of_stage("`train.global_batch_size`", stage) if len(value["stages"]) > 1 else "`train.global_batch_size`"
    help = (f"lower {lower} to {most:,} or less, or give more prompts" if most else "give more prompts",)
    note = f"one generation answers {needed:,} prompts, {counted(each, 'time')} each"
    report.add(Diagnostic("E0411", "nothing would be learned", (label,), help, (note,)))


def _unfilled(stage: str, decisions: Decisions) -> bool:
    """Whether the prompts are fewer than one generation answers."""
    value = {id: decision.value for id, decision in decisions.items()}
    if not METHODS[stage].generates:
        return False
    return training_rows(value) * value.get("per_prompt", 1) < generated(value)


def check_buildable(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report the stages whose layers are spread over ranks: they can be planned, not built."""
    for stage in plan.stages:
        if not stage.layout.can_be_built:
            report.add(_not_built(loaded, stage))


def _not_built(loaded: LoadedRecipe, stage: StagePlan) -> Diagnostic:
    mesh = stage.layout.mesh
    groups = (("tensor", mesh.tensor), ("context", mesh.context), ("expert", mesh.expert))
    used = [f"`train.{name}_parallel = {ranks}`" for name, ranks in groups if ranks > 1]
    pinned = next((key for key, _ in groups if loaded.is_set("train", f"{key}_parallel")), None)
    place = loaded.place("train", f"{pinned}_parallel") if pinned else loaded.place("hardware")
    label = Label(place, f"stage {stage.stage.label} uses {' and '.join(used)}")
    note = "bundles must resume, and transformers 5.23 cannot resume a model that is split at load (NOT-008)"
    free = (f"remove `train.{pinned}_parallel`",) if pinned else ()
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


def pins(layout: Layout) -> Change:
    """What a recipe says in [train] to get a layout of this kind."""
    row = layout.adapts
    sets = {
        "adaptation": row.family,
        "quantization": None if row.trains_all else row.base,
        "strategy": layout.strategy,
        "offload": layout.offload if layout.offloads else None,
        "activation_checkpointing": None if layout.checkpointing else False,
        "activation_offload": layout.activation_offload or None,
    }
    return Change(tuple((f"train.{key}", value) for key, value in sets.items() if value is not None))
