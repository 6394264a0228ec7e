"""What a finished plan is checked against: the budget, and what deserves a warning."""

from __future__ import annotations

from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.planner.buildable import can_be_built, pins
from recipec.planner.choose import GIB
from recipec.planner.few_tokens import warn_of_few_tokens
from recipec.planner.known_bad import advised_against
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe
from recipec.rules.words import counted, device

FEW_STEPS = 20  # our decision: a warmup of 3 to 10 % of fewer steps is one step or two


def check_limits(loaded: LoadedRecipe, model: Model, plan: Plan, report: Report) -> None:
    """Report what breaks [budget] and [policy], and warn about risky values, idle GPUs and too little CPU memory."""
    _budget(loaded, plan, report)
    _policy(loaded, model.licence, plan, report)
    _no_pairs(loaded, plan, report)
    for stage in plan.stages:
        _few_steps(loaded, stage, report)
        _assumed_sizes(loaded, stage, report)
        _dissent(loaded, stage, report)
        _other_batch(loaded, stage, stage is plan.stages[-1], report)
        _idle(loaded, stage, report)
        _host(loaded, stage, report)
        _advice(loaded, model, stage, report)
        warn_of_few_tokens(loaded, stage, report)


def _no_pairs(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Rule GOAL-001 answers a wish to align without pairs by supervised fine-tuning alone."""
    aligned = any(stage.stage.name == "dpo" for stage in plan.stages)
    if loaded.recipe.goal.task != "align" or aligned or loaded.recipe.alignment.method == "none":
        return
    label = Label(loaded.place("goal", "task"), "without pairs this is supervised fine-tuning only")
    help = ('give pairs as data.preferences, or say task = "instruct" or alignment.method = "none"',)
    report.add(Diagnostic("W0507", "task `align` without preference pairs", (label,), help))


def _few_steps(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    if stage.steps >= FEW_STEPS or loaded.is_set("train", "max_steps"):
        return
    section = _section(loaded, stage)
    rows, batch = stage.decisions["examples"].value, stage.decisions["global_batch_size"].value
    steps = counted(stage.steps, "step")
    label = Label(loaded.place("data", section), f"{rows:,} rows in batches of {batch} for {stage.stage.name}: {steps}")
    help = ("more rows or epochs, or a smaller train.global_batch_size, give more steps",)
    note = f"under {FEW_STEPS} steps, warmup and decay of the learning rate are a few jumps"
    report.add(Diagnostic("W0508", "very few optimizer steps", (label,), help, (note,)))


def _assumed_sizes(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    assumed = [id for id in ("examples", "tokens_per_example") if stage.decisions[id].origin == "default"]
    if not assumed:
        return
    section = _section(loaded, stage)
    values = " and ".join(f"{id} = {stage.decisions[id].value:,}" for id in assumed)
    label = Label(loaded.place("data", section), f"cannot be looked at from here: {values} for {stage.stage.name}")
    help = (f"state {' and '.join(f'data.{id}' for id in assumed)}",)
    note = "steps, schedule, time and cost follow from these numbers"
    report.add(Diagnostic("W0509", "the size of the data is assumed", (label,), help, (note,)))


def _section(loaded: LoadedRecipe, stage: StagePlan) -> str:
    pairs = stage.stage.name == "dpo" and loaded.is_set("data", "preferences")
    return "preferences" if pairs else "train"


def _budget(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    budget = loaded.recipe.budget
    hours, usd = plan.seconds / 3600, plan.cost_usd
    if budget.max_hours is not None and hours > budget.max_hours:
        share = budget.max_hours / hours
        _over(loaded, plan, "max_hours", f"the plan takes {hours:.1f} hours of {budget.max_hours:g}", share, report)
    if budget.max_cost_usd is not None and usd is None:
        label = Label(loaded.place("budget", "max_cost_usd"), "cannot be compared with anything")
        help = ("set budget.price_per_gpu_hour, or name a table of prices: budget.prices",)
        report.add(Diagnostic("E0403", "the budget cannot be checked: no price is known for this GPU", (label,), help))
    elif budget.max_cost_usd is not None and usd is not None and usd > budget.max_cost_usd:
        _over(loaded, plan, "max_cost_usd", f"the plan costs ${usd:,.2f}", budget.max_cost_usd / usd, report)


def _over(loaded: LoadedRecipe, plan: Plan, key: str, message: str, share: float, report: Report) -> None:
    label = Label(loaded.place("budget", key), message)
    help = ("fewer epochs or examples or a smaller model take less",)
    report.add(Diagnostic("E0403", f"over budget: {message}", (label,), (*_within(plan, share), *help)))


def _within(plan: Plan, share: float) -> tuple[str, ...]:
    """The first alternative of a stage with which the plan takes no more than `share` of its time, hence cost."""
    for stage in plan.stages:
        for other in stage.rejected:
            if other.seconds is None or not can_be_built(other.layout):
                continue
            seconds = plan.seconds - stage.seconds + other.seconds
            if seconds <= share * plan.seconds:
                return (f"{' and '.join(pins(other.layout))} takes {seconds / 3600:.1f} hours: {other.family}",)
    return ()


def _policy(loaded: LoadedRecipe, licence: str | None, plan: Plan, report: Report) -> None:
    policy = loaded.recipe.policy
    if policy.licences is not None and (licence or "").casefold() not in map(str.casefold, policy.licences):
        found = f"its licence is {licence}" if licence else "its licence is not known to the catalog"
        _broken(loaded, ("model", "name"), found, "licences", report)
    if policy.max_usd is not None and plan.cost_usd is None:
        _broken(loaded, ("hardware",), "what it costs is unknown, see budget.price_per_gpu_hour", "max_usd", report)
    elif policy.max_usd is not None and plan.cost_usd > policy.max_usd:
        _broken(loaded, ("hardware",), f"the plan costs ${plan.cost_usd:,.2f}", "max_usd", report)


def _broken(loaded: LoadedRecipe, path: tuple[str, ...], found: str, limit: str, report: Report) -> None:
    labels = (Label(loaded.place(*path), found), Label(loaded.place("policy", limit), "the limit is here"))
    help = ("keep to the limit, or ask whoever owns the policy",)
    report.add(Diagnostic("E0404", f"the policy's `{limit}` is broken: {found}", labels, help))


def _dissent(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    for decision in stage.decisions.values():
        if decision.dissent:
            path = decision.key.split(".")
            own = ("train", stage.stage.name, *path[1:])
            place = loaded.place(*(own if loaded.is_set(*own) else path))
            title = f"`{path[-1]}` is outside the range of its rule"
            notes = (f"`recipec explain {decision.rule}` has the reasons",)
            report.add(Diagnostic("W0501", title, (Label(place, decision.dissent),), notes=notes))


def _other_batch(loaded: LoadedRecipe, stage: StagePlan, last: bool, report: Report) -> None:
    """The recipe fixes a global batch that the ranks cannot make."""
    layout = stage.layout
    wish = loaded.wishes(stage.stage.name, last=last).get("train.global_batch_size")
    if wish is None or wish.value == layout.global_batch:
        return
    own = ("train", stage.stage.name, "global_batch_size")
    place = loaded.place(*own) if loaded.is_set(*own) else loaded.place("train", "global_batch_size")
    ranks = f"{layout.mesh.data_parallel} ranks with {layout.micro_batch} each"
    title = f"{stage.stage.name} runs with a global batch of {layout.global_batch}"
    help = (f"a multiple of {layout.mesh.data_parallel * layout.micro_batch} is met exactly",)
    report.add(Diagnostic("W0510", title, (Label(place, f"cannot be met by {ranks}"),), help))


def _idle(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    gpus, used = stage.decisions["gpus"].value, stage.layout.mesh.world_size
    if used < gpus:
        label = Label(loaded.place("hardware", "gpus_per_node"), f"{stage.stage.name} uses {used}")
        decisions, layout = stage.decisions, stage.layout
        fixed = layout.micro_batch if decisions["micro_batch_size"].origin == "recipe" else 1
        starved = decisions["global_batch_size"].value // fixed < gpus
        cure = (
            f"raise train.global_batch_size{' or lower train.micro_batch_size' * (fixed > 1)}"
            if starved
            else "`recipec plan` shows why no layout on all of them won"
        )
        noun, idle = device(decisions["gpu_is_cpu"].value), gpus - used
        title = f"{idle} of {gpus} {noun}s {'is' if idle == 1 else 'are'} idle"
        report.add(Diagnostic("W0503", title, (label,), (f"{cure}, or ask for fewer {noun}s",)))


def _host(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    stated_gib, host = loaded.recipe.hardware.host_memory_gib, stage.needs.host
    if stated_gib is None or stage.decisions["gpu_is_cpu"].value or host.needed_bytes <= stated_gib * GIB:
        return
    needed = f"{stage.stage.name} needs about {host.needed_bytes / GIB:.0f} GiB"
    label = Label(loaded.place("hardware", "host_memory_gib"), needed)
    help = ("a strategy that loads the weights once per node (fsdp, zero3), no offload, or fewer GPUs need less",)
    report.add(Diagnostic("W0505", "the node may have too little CPU memory", (label,), help, (host.because,)))


def _advice(loaded: LoadedRecipe, model: Model, stage: StagePlan, report: Report) -> None:
    for row in advised_against(stage.layout, stage.decisions, model.architecture):
        label = Label(loaded.place("train"), row.why)
        report.add(Diagnostic("W0504", row.title, (label,), (f"instead: {row.instead}",), (row.citation,)))
