"""Plan a recipe: the stages, and for each the first acceptable adaptation with a layout that fits."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.estimate.cost import run_cost
from recipec.estimate.device import usable_bytes
from recipec.estimate.links import link_of
from recipec.facts import Facts
from recipec.planner.choose import GIB, Bounds, Candidate, best, candidates, seconds_per_sequence
from recipec.planner.known_bad import refused
from recipec.planner.layouts import layouts
from recipec.planner.outcome import record_layout
from recipec.planner.plan import Plan, Rejected, Stage, StagePlan
from recipec.planner.settle import Context, settle, settle_steps, work_of
from recipec.recipe import LoadedRecipe
from recipec.rules import adaptation as adaptations
from recipec.rules import goal
from recipec.rules.combinations import BadCombination
from recipec.rules.core import Ledger

HEADROOM = (
    0.95  # of what is usable: the memory law was more than 5 % too low in few published runs (benchmarks/results)
)


def planned_bytes(gpu_memory_gib: float, world_size: int) -> int:
    """The allocated bytes per rank that a plan may be predicted to reach."""
    return int(HEADROOM * usable_bytes(gpu_memory_gib, world_size))


def plan_recipe(loaded: LoadedRecipe, facts: Facts, report: Report) -> Plan | None:
    """The plan of a recipe; None with a diagnostic when a stage cannot run on the hardware."""
    stages = _stages(loaded, facts)
    plans = [_plan_stage(_context(loaded, facts, stage, stages), loaded, report) for stage in stages]
    found = [plan for plan in plans if plan is not None]
    return Plan(tuple(found)) if len(found) == len(plans) else None


def _stages(loaded: LoadedRecipe, facts: Facts) -> list[Stage]:
    ledger = Ledger(loaded.wishes("", last=True))
    given = facts.decisions
    method = ledger.decide(goal.alignment_method, given["task"], given["has_preferences"])
    train_format = facts.data["train"].shape.format if "train" in facts.data else None
    names = goal.stages(given["task"].value, train_format, method.value).value
    return [Stage(name, names[index - 1] if index else None) for index, name in enumerate(names)]


def _context(loaded: LoadedRecipe, facts: Facts, stage: Stage, stages: list[Stage]) -> Context:
    section = "preferences" if stage.name == "dpo" and "preferences" in facts.data else "train"
    return Context(stage, facts, facts.data[section], loaded.wishes(stage.name, last=stage is stages[-1]))


def _plan_stage(context: Context, loaded: LoadedRecipe, report: Report) -> StagePlan | None:
    """Try the acceptable adaptations in order; the first with a feasible layout is taken."""
    tried: list[Candidate] = []
    bad: list[BadCombination] = []
    for adaptation, quantization, because in _adaptations(context):
        ledger = settle(context, adaptation, quantization, because)
        found = _fit(context, ledger, loaded, bad)
        chosen = best(found)
        tried += found
        if chosen is not None:
            return _stage_plan(context, ledger, chosen, tried, loaded)
    report.add(_does_not_fit(context, loaded, tried) if tried else _known_to_fail(loaded, bad))
    return None


def _adaptations(context: Context) -> list[tuple[str, str, str]]:
    """The acceptable adaptations in order of preference, each with its reason."""
    given = {id: decision.value for id, decision in context.ledger().decisions.items()}
    names = ("stage", "priority", "new_domain", "first_time", "examples", "total_vram_gib", "gpu_is_cpu")
    choice = adaptations.adaptation_preferences(*(given[name] for name in names))
    wish = {key: value.value for key, value in context.wishes.items()}
    allowed = adaptations.wished(choice.value, wish.get("train.adaptation"), wish.get("train.quantization"))
    first = choice.value[0]
    return [
        (*pair, choice.because if pair == first else f"{adaptations.adaptation_reason(*pair)}; {choice.because}")
        for pair in allowed
    ]


def _fit(context: Context, ledger: Ledger, loaded: LoadedRecipe, bad: list[BadCombination]) -> list[Candidate]:
    """The candidates of one adaptation; those that are known to fail are left out and added to `bad`."""
    facts, value = context.facts, ledger.decisions
    host = loaded.recipe.hardware.host_memory_gib
    work = work_of(ledger)
    bounds = Bounds(
        planned_bytes(facts.gpu.memory_gib, value["gpus"].value),
        None if host is None else int(host * GIB),
        value["global_batch_size"].value,
        getattr(context.wishes.get("train.micro_batch_size"), "value", None),
        link_of(facts.gpu, loaded.recipe.hardware.gpu_link or "auto", facts.gpus),
        work
        if value["packing"].value
        else replace(work, seq_len_tokens=min(work.seq_len_tokens, value["tokens_per_example"].value)),
    )
    judged = [(layout, refused(layout, value)) for layout in layouts(ledger)]
    bad += [row for _, row in judged if row is not None]
    return candidates(
        [layout for layout, row in judged if row is None], facts.model.architecture, work, facts.gpu, bounds
    )


def _stage_plan(
    context: Context, ledger: Ledger, chosen: Candidate, tried: list[Candidate], loaded: LoadedRecipe
) -> StagePlan:
    facts = context.facts
    record_layout(ledger, chosen, facts)
    steps = _total_steps(ledger, chosen)
    settle_steps(ledger, steps)
    assert chosen.time is not None
    seconds = steps * chosen.time.seconds_per_step
    cost = run_cost(seconds, facts.gpus, facts.gpu, loaded.recipe.budget.price_per_gpu_hour)
    verbatim = context.wishes.get("train.arguments")
    return StagePlan(
        stage=context.stage,
        layout=chosen.layout,
        decisions=dict(ledger.decisions),
        memory=chosen.memory,
        usable_bytes=planned_bytes(facts.gpu.memory_gib, chosen.layout.mesh.world_size),
        capacity_bytes=int(facts.gpu.memory_gib * GIB),
        time=chosen.time,
        steps=steps,
        seconds=seconds,
        cost_usd=cost.usd,
        cost_because=cost.because,
        verbatim={} if verbatim is None else verbatim.value,
        rejected=tuple(_rejected(chosen, tried, steps)),
    )


def _total_steps(ledger: Ledger, chosen: Candidate) -> int:
    """Optimizer steps of the stage."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    if "train.max_steps" in ledger.wishes:
        return ledger.wishes["train.max_steps"].value
    rows = value["examples"] * (1 - value["eval_fraction"] - value["test_fraction"])
    if value["packing"]:
        rows = rows * value["tokens_per_example"] / value["max_length"]
    return max(1, ceil(rows * value["epochs"] / chosen.layout.global_batch))


def _rejected(chosen: Candidate, tried: list[Candidate], steps: int) -> list[Rejected]:
    """The best candidate of every other family."""
    families: dict[str, list[Candidate]] = {}
    for candidate in tried:
        families.setdefault(candidate.family, []).append(candidate)
    families.pop(chosen.family)
    return [_reason(_closest(family), chosen, steps) for family in families.values()]


def _closest(family: list[Candidate]) -> Candidate:
    return best(family) or min(family, key=lambda candidate: (bool(candidate.obstacle), candidate.over_bytes))


def _reason(candidate: Candidate, chosen: Candidate, steps: int) -> Rejected:
    peak = candidate.memory.peak_device_bytes
    if not candidate.fits:
        over = f"{candidate.memory.peak_allocated_bytes / GIB:.1f} GiB, {candidate.over_bytes / GIB:.1f} over"
        return Rejected(candidate.family, candidate.obstacle or over, peak)
    ratio = seconds_per_sequence(candidate) / seconds_per_sequence(chosen)
    assert candidate.time is not None
    reason = f"fits, {ratio:.1f}x slower" if ratio > 1.05 else "fits, as fast, and is less simple"
    return Rejected(candidate.family, reason, peak, steps * candidate.time.seconds_per_step)


def _does_not_fit(context: Context, loaded: LoadedRecipe, tried: list[Candidate]) -> Diagnostic:
    """Nothing fits: say by how much, and what comes closest."""
    gpu, stage = context.facts.gpu, context.stage.name
    key = "gpu" if loaded.is_set("hardware", "gpu") else "vram_gib"
    label = Label(loaded.place("hardware", key, part="value"), f"{context.facts.gpus} x {gpu.memory_gib:g} GiB")
    closest = sorted(tried, key=lambda candidate: candidate.over_bytes)[:3]
    notes = tuple(f"{candidate.family}: {_reason(candidate, candidate, 1).reason}" for candidate in closest)
    help = ("a smaller model, a shorter data.max_length, more GPUs, or GPUs with more memory",)
    return Diagnostic("E0402", f"stage {stage} of {context.facts.model.name} does not fit", (label,), help, notes)


def _known_to_fail(loaded: LoadedRecipe, bad: list[BadCombination]) -> Diagnostic:
    """Every layout that the recipe allows is known to fail."""
    label = Label(loaded.place("train"), "the values fixed here leave no combination that runs")
    if not bad:
        return Diagnostic(
            "E0405", "no strategy is left", (label,), ("let recipec decide train.strategy or train.offload",)
        )
    rows = list({row.id: row for row in bad}.values())
    help = tuple(f"{row.id}: {row.instead}" for row in rows)
    return Diagnostic("E0405", rows[0].title, (label,), help, tuple(f"{row.why} ({row.citation})" for row in rows))
