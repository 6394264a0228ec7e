"""What deserves a warning in a plan that fits: risky values, idle GPUs, too little text or host memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, log

from recipec.axes import ADAPTATIONS, METHODS
from recipec.catalog.models import Model, models
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts import Facts
from recipec.layout import Machines
from recipec.planner.advice.assumed import assumed_machine
from recipec.planner.advice.assumed_sizes import assumed_sizes
from recipec.planner.advice.change import Change
from recipec.planner.advice.cut_thoughts import cut_thoughts
from recipec.planner.advice.few_general import few_general
from recipec.planner.advice.held_out import nothing_left
from recipec.planner.advice.keys import for_stage, in_place
from recipec.planner.advice.limits import section_of
from recipec.planner.advice.mending import culprits
from recipec.planner.advice.new_domain import without_text
from recipec.planner.advice.slow_network import slow_network
from recipec.planner.advice.smoothing import label_smoothing
from recipec.planner.advice.thoughts import empty_thoughts
from recipec.planner.plan import Plan, StagePlan
from recipec.planner.search.bounds import usable_host_bytes
from recipec.planner.search.known_bad import advised_against
from recipec.planner.search.nothing_learned import learns_nothing
from recipec.planner.search.sequences import settled_method, training_sequences
from recipec.recipe import LoadedRecipe
from recipec.rules.evaluation import training_rows, training_tokens
from recipec.rules.model import OPEN_LICENCES
from recipec.rules.words import device
from recipec.units import GIB, counted

FEW_STEPS = 20  # recipec's choice: a warmup of 3% to 10% of fewer steps is one step or two
LEAST_CORES_PER_GPU = 4  # docs/rule-books/001.md, Step 4: 4 to 8 workers; recipec tokenizes rows before training
WANTED_TOKENS = 10**12  # docs/rule-books/001.md, Step 1
TOKENS_PER_PARAMETER = 20  # compute-optimal: Hoffmann et al. 2022 ("Chinchilla", arXiv 2203.15556)


def warn(loaded: LoadedRecipe, facts: Facts, plan: Plan, report: Report) -> None:
    """Report W05xx of a finished plan."""
    model, others = facts.model, {role: other.model for role, other in facts.others.items()}
    _few_cores(loaded, plan, report)
    for finding in (*assumed_sizes(loaded, facts, plan), *slow_network(loaded, plan), *without_text(loaded, plan)):
        report.add(finding)
    for stage in plan.stages:
        _few_steps(loaded, stage, report)
        empty_thoughts(loaded, facts, stage, report)
        cut_thoughts(loaded, model, others, stage, report)
        _too_long(loaded, plan, stage, report)
        _dissent(loaded, stage, report)
        _other_batch(loaded, stage, stage is plan.stages[-1], report)
        _quantized(loaded, stage, stage is plan.stages[-1], report)
        _idle(loaded, stage, report)
        _host(loaded, stage, report)
        _advice(loaded, model, stage, report)
        _few_tokens(loaded, stage, report)
        smoothed = label_smoothing(loaded, model, stage)
        for finding in (*assumed_machine(loaded, stage), *few_general(loaded, stage), *smoothed):
            report.add(finding)


def _few_steps(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    if (
        stage.steps >= FEW_STEPS
        or stage.decisions["max_steps"].origin == "recipe"
        or learns_nothing(stage.stage.name, stage.steps, stage.decisions)
        or any(nothing_left(loaded, stage, section_of(loaded, stage)))
    ):
        return
    section = section_of(loaded, stage)
    batch = stage.decisions["global_batch_size"].value
    of = " answers" * METHODS[stage.stage.name].generates
    found = f"{_trained(stage)} and a global batch of {batch}{of} give {counted(stage.steps, 'step')}"
    label = Label(loaded.place("data", section), f"{found} in stage {stage.stage.label}")
    more = "text" if METHODS[stage.stage.name].of_text else "rows"
    help = (for_stage(f"use more {more}, raise `train.epochs` or lower `train.global_batch_size`", stage, loaded),)
    note = f"in fewer than {FEW_STEPS} steps the learning rate rises and falls in a few jumps"
    report.add(Diagnostic("W0508", "very few optimizer steps", (label,), help, (note,)))


_LOST = {  # data.overflow -> the share of the sampled rows that it loses, what they are, and what becomes of them
    "drop": ("rows_too_long", "are longer", "they would be dropped"),
    "truncate": (
        "rows_unanswered",
        "have no answer within {length:,} tokens",
        "their questions alone reach that length, so they teach nothing and are dropped",
    ),
}


def _too_long(loaded: LoadedRecipe, plan: Plan, stage: StagePlan, report: Report) -> None:
    """Report W0535 where max_length or the context loses more of the sampled rows than training accepts."""
    decisions, limit = stage.decisions, stage.decisions["dropped_rows_limit"].value
    id, are, become = _LOST.get(decisions["overflow"].value, ("", "", ""))
    if id not in decisions or decisions[id].value <= limit:
        return
    length, context = decisions["max_length"].value, decisions["max_position"].value
    stated = loaded.is_set("data", "max_length")
    place = loaded.place("data", "max_length" if stated else section_of(loaded, stage))
    share = f"about {decisions[id].value:.0%} of the sampled rows of stage {stage.stage.label}"
    label = Label(place, f"{share} {are.format(length=length)}")
    notes = (
        f"{become}, and training does not start where more than {limit:.0%} are lost (DATA-005)",
        *_other_blocks(plan),
    )
    title = f"`data.max_length = {length}` is too short for many rows"
    if not stated:
        title = f"many rows are longer than the model's context of {context:,} tokens"
    report.add(Diagnostic("W0535", title, (label,), tuple(_for_long_rows(stage)), notes))


def _other_blocks(plan: Plan) -> Iterator[str]:
    """Which stages cut their text into blocks of max_length, too: their blocks may be longer or shorter by default."""
    blocks = [
        f"{each.stage.label}'s blocks (now {each.decisions['max_length'].value:,} tokens)"
        for each in plan.stages
        if METHODS[each.stage.name].packs == "blocks"
    ]
    if blocks and len(plan.stages) > 1:
        yield f"`data.max_length` is also the length of {' and '.join(blocks)}: longer ones need more memory"


def _for_long_rows(stage: StagePlan) -> Iterator[str]:
    """What keeps rows over max_length, which cannot be raised above the model's context."""
    value = {id: decision.value for id, decision in stage.decisions.items()}
    context, p99 = value["max_position"] or inf, value["tokens_p99"]
    if value["max_length"] < context and p99:
        most = f", and the model's context ends at {context:,}" * (p99 > context)
        yield f"raise `data.max_length`: 99% of the rows have at most about {p99:,} tokens{most}"
    if value["max_length"] >= context or (p99 and p99 > context):
        yield "split long rows, or begin with a model of a longer context (`recipec list models`)"
        cut = value["overflow"] == "drop" and value["rows_unanswered"] <= value["dropped_rows_limit"]
        if cut and METHODS[stage.stage.name].truncates:
            yield 'to train on the beginning of such rows: `overflow = "truncate"` under [data]'


def _trained(stage: StagePlan) -> str:
    """What the steps go through: rows without those held out, or the blocks that packing makes of them."""
    value = {id: decision.value for id, decision in stage.decisions.items()}
    if METHODS[stage.stage.name].generates:
        answers, passes = counted(value.get("per_prompt", 1), "answer"), value.get("answer_passes", 1)
        again = f", learned from {passes} times," * (passes > 1)
        return f"{counted(training_rows(value), 'prompt')} with {answers} each{again}"
    if not value["packing"]:
        return counted(training_rows(value), "training row")
    blocks, tokens = ceil(training_sequences(value)), training_rows(value) * training_tokens(value)
    return f"{_count(tokens)} training tokens in {counted(blocks, 'block')} of {value['max_length']:,}"


def _dissent(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    for decision in stage.decisions.values():
        if decision.dissent and not (decision.id == "warmup" and stage.steps == 1):  # 0 is what E0411 advises then
            path = loaded.written_for(stage.stage.name, decision.key)
            place = loaded.place(*path)
            title = f"`{'.'.join(path)}` is outside the usual range"
            notes = (f"`recipec explain {decision.rule}` gives the reasons",)
            report.add(Diagnostic("W0501", title, (Label(place, decision.dissent),), notes=notes))


def _other_batch(loaded: LoadedRecipe, stage: StagePlan, last: bool, report: Report) -> None:
    """The recipe fixes a global batch that the ranks cannot make."""
    layout = stage.layout
    wishes, method = loaded.wishes(stage.stage.name, last=last), METHODS[stage.stage.name]
    wish = wishes.get("train.global_batch_size")
    if wish is None or wish.value == layout.global_batch:
        return
    place = loaded.place(*loaded.written_for(stage.stage.name, "train.global_batch_size"))
    ranks = counted(layout.mesh.data_parallel, "rank")
    rows = layout.micro_batch if "train.micro_batch_size" in wishes else method.least_micro_batch
    examples = counted(rows, method.example)
    title = f"stage {stage.stage.label} runs with a global batch of {layout.global_batch}"
    multiple = layout.mesh.data_parallel * rows
    accepts = stage.decisions["global_batch_size"].accepts
    near = _round_multiple(multiple, wish.value, layout.global_batch, accepts)
    help = (for_stage(f"set `train.global_batch_size = {near}`, or another multiple of {multiple}", stage, loaded),)
    report.add(Diagnostic("W0510", title, (Label(place, f"not divisible by {ranks} x {examples}"),), help))


def _round_multiple(of: int, near: int, planned: int, accepts: tuple[float, float] | None) -> int:
    """The nearest of the multiples by a product of twos and threes, as micro batches are chosen among the divisors;
    where that leaves the usual range, and what is wished for does not, the batch that is planned, or the nearest in it.
    """
    factors = (2**twos * 3**threes for twos in range(near.bit_length() + 1) for threes in range(3))
    nearest = sorted({of * factor for factor in factors}, key=lambda size: (abs(size - near), -size))
    least, most = accepts if accepts and accepts[0] <= near <= accepts[1] else (1, inf)
    return next((size for size in (nearest[0], planned, *nearest) if least <= size <= most), nearest[0])


_FEWER_TOKENS = "leave tokens that the tokenizer has already out of `model.new_tokens`: training new ones takes memory"


def _quantized(loaded: LoadedRecipe, stage: StagePlan, last: bool, report: Report) -> None:
    """The recipe asks for an adapter, and the base finds room in fewer bits alone (W0536)."""
    wishes, chosen = loaded.wishes(stage.stage.name, last=last), stage.layout.adapts
    wish = wishes.get("train.adaptation")
    if wish is None or wish.value == chosen.name or not chosen.quantized or "train.quantization" in wishes:
        return
    place = loaded.place(*loaded.written_for(stage.stage.name, "train.adaptation"))
    then, because = stage.unquantized, stage.decisions["adaptation"].because.partition("; ")[2]
    if then is not None and then.fits:
        because = f"{then.fits}, so {METHODS[stage.stage.name].called(chosen)} is used"
    label = Label(place, because or "it does not fit otherwise")
    refused = "the error names what would fit" if then is None else then.effect
    title = f"stage {stage.stage.label} trains a {ADAPTATIONS[wish.value].title} adapter on a quantized base"
    help = (
        f'if that is what you want, write `train.adaptation = "{chosen.name}"`',
        f'to refuse it, write `train.quantization = "none"`: {refused}',
        *[_FEWER_TOKENS] * ("new_tokens" in stage.decisions),
    )
    report.add(Diagnostic("W0536", title, (label,), help))


def _idle(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    gpus, used = stage.decisions["gpus"].value, stage.layout.gpus
    if used == gpus:
        return
    noun, idle = device(stage.decisions["gpu_is_cpu"].value), gpus - used
    several = stage.decisions["nodes"].value > 1
    key = "nodes" if several and used % stage.decisions["gpus_per_node"].value == 0 else "gpus_per_node"
    label = Label(loaded.place("hardware", key), f"stage {stage.stage.label} uses {counted(used, noun)}")
    title = f"{idle} of {gpus} {noun}s {'is' if idle == 1 else 'are'} idle"
    ways = (*stage.work_for_idle, *(for_stage(way, stage, loaded) for way in _fewer(stage, gpus)))
    others = len(stage.decisions["stages"].value) > 1
    kept = "other stages run on the same GPUs" if others else stage.on_used.refused
    notes = () if ways else (f"as the recipe is, {stage.idle_because}; {kept}",)
    report.add(Diagnostic("W0503", title, (label,), ways, notes))


def _fewer(stage: StagePlan, gpus: int) -> Iterator[str]:
    """The lines of a recipe that states no more GPUs than have work, or of one whose micro batch leaves more some."""
    decisions, layout, then = stage.decisions, stage.layout, stage.on_used
    fixed = decisions["micro_batch_size"].origin == "recipe"
    least = layout.micro_batch if fixed else settled_method(decisions).least_micro_batch
    starved = decisions["global_batch_size"].value // least < gpus
    because = () if starved else (f"as the recipe is, {stage.idle_because}",)
    smaller = ["lower `train.micro_batch_size`"] * (starved and fixed and least > 1)
    if then.machines is not None:
        told = f"{_stating(stage, then.machines)}{f', which then trains {then.otherwise}' * bool(then.otherwise)}"
        told += f", {then.takes}" * bool(then.takes)
        smaller.append(f"{told}: {'; '.join((*because, then.whole_run))}")
    if smaller:
        yield ", or ".join(smaller)


def _stating(stage: StagePlan, fewer: Machines) -> str:
    """The lines that state no more than is used; measurements are of all GPUs of a node."""
    value = {id: stage.decisions[id].value for id in ("nodes", "gpus_per_node", "gpu_is_cpu")}
    part = fewer.gpus_per_node < value["gpus_per_node"]
    sets = (("hardware.nodes", fewer.nodes),) * (fewer.nodes < value["nodes"])
    sets += (("hardware.gpus_per_node", fewer.gpus_per_node),) * part
    measured = ("hardware.measured",) * (part and "measured" in stage.decisions and not value["gpu_is_cpu"])
    return Change((*sets, *stage.on_used.pins), measured).told


def _host(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    memory, host = stage.decisions.get("host_memory_gib"), stage.needs.host
    if memory is None or memory.value is None or not stage.crowds_host:
        return
    stated, assumed = memory.origin == "recipe", memory.origin == "default"
    needed = f"stage {stage.stage.label} needs about {host.needed_bytes / GIB:.0f} GiB"
    needed += f", and {usable_host_bytes(memory.value, assumed) / GIB:.0f} of {memory.value:g} GiB are usable"
    if assumed:
        needed += "; they are assumed: state `hardware.host_memory_gib`"
    key = "host_memory_gib" if stated else "gpu" if assumed else "measured"
    label = Label(loaded.place("hardware", key), needed)
    alone = host.per_gpu_bytes == host.needed_bytes  # one process, whatever the GPUs
    help = stage.roomier or (f"take {'' if alone else 'fewer GPUs of a node, or '}a node with more memory",)
    report.add(Diagnostic("W0505", "the node may have too little host memory", (label,), help, (host.because,)))


def _few_cores(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report W0520 where the stated CPU cores are fewer than the loader's processes of a usual run."""
    decisions = plan.stages[0].decisions
    each = decisions["cores_per_gpu"].value
    if each is None or each >= LEAST_CORES_PER_GPU or decisions["gpu_is_cpu"].value:
        return
    label = Label(loaded.place("hardware", "cpu_cores"), f"{counted(each, 'core')} for each GPU")
    help = ("use a node with more CPU cores, and watch whether `tokens_per_second` stays near the plan",)
    note = (
        "rule book 001 loads data with 4 to 8 processes for each GPU and wants 8 to 16 cores "
        "(docs/rule-books/001.md, Step 4; CPU/RAM guidelines)"
    )
    report.add(Diagnostic("W0520", f"fewer than {LEAST_CORES_PER_GPU} CPU cores for each GPU", (label,), help, (note,)))


def _advice(loaded: LoadedRecipe, model: Model, stage: StagePlan, report: Report) -> None:
    for found in advised_against(stage.layout, stage.decisions, model.architecture, stage.work):
        row, (first, *others) = found.row, culprits(loaded, stage.stage.name, [found]) or [loaded.place("train")]
        labels = (Label(first, row.why), *(Label(place, "part of the combination") for place in others))
        help = stage.avoiding.get(row.id) or (in_place(for_stage(row.instead, stage, loaded), loaded),)
        report.add(Diagnostic("W0504", row.title, labels, help, (row.citation,)))


def _few_tokens(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    """Report W0506 where random weights see fewer tokens than rule book 001 wants."""
    tokens = _tokens_seen(stage)
    if not METHODS[stage.stage.name].random_weights or tokens >= WANTED_TOKENS:
        return
    params = stage.decisions["params"].value
    labels = (
        Label(loaded.place("goal", "task"), "training starts from random weights"),
        Label(loaded.place("data", "train"), f"{_count(tokens)} tokens, {tokens / params:.2g} per parameter"),
    )
    base = _base_model(loaded, stage, params)
    size, context = _count(base.architecture.params), base.architecture.max_position
    told = (
        f"{size} parameters{f', a context of {context:,} tokens' * bool(context)}, license {base.licence or 'unknown'}"
    )
    setting = f'`goal.task = "continue-pretrain"` and `model.name = "{base.name}"`'
    help = (f"train a pretrained model further: set {setting} ({told})",)
    optimal = (
        f"{TOKENS_PER_PARAMETER} tokens per parameter, {_count(TOKENS_PER_PARAMETER * params)} for the model, make the "
        "best use of computation (Hoffmann et al., arXiv 2203.15556, 2022)"
    )
    notes = (
        "pretraining takes 1T tokens or more and is for cases without a suitable base model "
        "(docs/rule-books/001.md, Step 1)",
    )
    title = f"pretraining on {_count(tokens)} tokens, fewer than 1T"
    report.add(Diagnostic("W0506", title, labels, help, (*notes, optimal)))


def _tokens_seen(stage: StagePlan) -> int:
    """The tokens of every row in every epoch, or of as many full batches as steps are set."""
    value = {id: decision.value for id, decision in stage.decisions.items()}
    full = stage.steps * stage.layout.global_batch * value["max_length"]
    seen = round(training_rows(value) * training_tokens(value) * value["epochs"])
    return full if value["max_steps"] > 0 else min(full, seen)


def _count(tokens: float) -> str:
    """A number of tokens as people say it: 30B, 5.2M, 4,096."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit}"
    return f"{tokens:,}"


def _base_model(loaded: LoadedRecipe, stage: StagePlan, params: int) -> Model:
    """The base model of the catalog with the recipe's name; else the one nearest in size of those with the context that
    it asks for, an accepted license and no special purpose; where none has all of that, of those with the first of it.
    """
    name, length = stage.decisions["model"].value, stage.decisions["max_length"].value
    allowed = loaded.recipe.policy.licenses or OPEN_LICENCES
    accepted = {licence.casefold() for licence in allowed}

    def unfit(other: Model) -> tuple[bool, bool, bool, bool, float]:
        short = other.architecture.max_position < length
        size = abs(log(other.architecture.params / params))
        return other.name != name, short, (other.licence or "").casefold() not in accepted, bool(other.purpose), size

    return min((model for model in models() if model.kind == "base"), key=unfit)
