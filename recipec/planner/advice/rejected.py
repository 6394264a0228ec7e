"""Why the others were not taken, and what to say when nothing can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.axes.answering import ENGINE
from recipec.axes.generators import GENERATORS
from recipec.catalog.gpus import Gpu
from recipec.diagnostics.model import Diagnostic, Label
from recipec.layout import Layout
from recipec.planner.advice.change import asking_for, setting
from recipec.planner.advice.host_memory import least_host
from recipec.planner.advice.stated import stating
from recipec.planner.advice.ways_out import Conditions, WayOut, all_fitting, by_cost, fitting, way, ways_out
from recipec.planner.plan import Rejected
from recipec.planner.search.all_gpus import sequences_for_all, uneven_answers
from recipec.planner.search.bounds import NEAR, TIE, Bounds
from recipec.planner.search.candidates import Candidate, candidates, gpu_gib, seconds_per_sequence
from recipec.planner.search.context import EIGHT_BIT, Context
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.known_bad import Refusal
from recipec.planner.search.names import adaptation_name
from recipec.planner.search.preference import (
    IDLE_TIE,
    OFFLOAD_TIE,
    best,
    by_preference,
    clearly_faster,
    nearest_of,
    rank_of,
)
from recipec.planner.search.sequences import settled_method
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.rules.adaptation import adaptation_preferences
from recipec.rules.combinations_online import ONE_NODE
from recipec.rules.core import Ledger, Wish
from recipec.units import GIB, counted, enough_gib, gib, times

CLOSEST = 3  # layouts that an error names


def rejected(found: Fit, chosen: Candidate, seconds: float, asked: Wish | None = None) -> list[Rejected]:
    """The best candidate of every other family of the chosen adaptation, and of every other adaptation.

    `asked`: the adaptation that the recipe asks for, where it does.
    """
    groups, larger = (_groups(tried, chosen) for tried in (found.tried, found.larger))
    groups.pop(_group(chosen, chosen))
    order = by_preference(found.tried)
    before = order[: order.index(chosen.adaptation)]  # what the rules would rather have had
    where = asked.where if asked else ""
    rows = (_nearest(group, larger.get(name, []), chosen) for name, group in groups.items())
    return [_reason(each, chosen, seconds, before, where) for each in rows]


def _groups(tried: Sequence[Candidate], chosen: Candidate) -> dict[str, list[Candidate]]:
    groups: dict[str, list[Candidate]] = {}
    for candidate in tried:
        groups.setdefault(_group(candidate, chosen), []).append(candidate)
    return groups


def _nearest(group: list[Candidate], larger: list[Candidate], chosen: Candidate) -> Candidate:
    """The best of a group with what the chosen one takes as well: with activations in host memory, and with the largest
    global batch where that makes it clearly faster."""
    hosted = chosen.layout.activation_offload
    own, other = (best(each) if hosted else nearest_of(each) if each else None for each in (group, larger))
    own = own or nearest_of(group)
    return other if other is not None and own.fits and other.fits and clearly_faster(other, own) else own


def idle(
    context: Context, ledger: Ledger, chosen: Candidate, tried: Sequence[Candidate], seconds: float
) -> list[Rejected]:
    """What stands against training on all GPUs: the nearest layout that would, or a batch with too few examples."""
    gpus = context.facts.machines.gpus
    if chosen.layout.gpus == gpus:
        return []
    alike = [other for other in tried if other.layout.adapts is chosen.layout.adapts and other.layout.can_be_built]
    found = [other for other in alike if other.layout.gpus == gpus]
    if found:
        fitting = [other for other in found if other.fits]
        on_gpus = [other for other in fitting or found if not other.layout.offloads]
        row = _reason(nearest_of(on_gpus or fitting or found), chosen, seconds)
        return [replace(row, family=f"{row.family} on {gpus} GPUs", can_be_asked=False)]
    batch, uneven = ledger.decisions["global_batch_size"], uneven_answers(context, ledger)
    if batch.value >= sequences_for_all(context) and not uneven:
        return []
    has = counted(batch.value, settled_method(ledger.decisions).example)
    reason = f"the global batch has {has}" + (f", and accepts {batch.accepts[1]:g}" if batch.accepts else "")
    reason = uneven or reason
    return [Rejected(f"{chosen.adaptation} on {gpus} GPUs", chosen.layout, reason, None)]


def _group(candidate: Candidate, chosen: Candidate) -> str:
    """Its family; all ways to share layers between ranks are one, and so is all of another adaptation."""
    if candidate.adaptation != chosen.adaptation:
        return candidate.adaptation
    states = "" if candidate.layout.optimizer == chosen.layout.optimizer else candidate.layout.optimizer
    return "shared layers" if candidate.layout.mesh.ranks_per_layer > 1 else candidate.family + states


def _reason(
    candidate: Candidate, chosen: Candidate, seconds: float, before: Sequence[str] = (), asked: str = ""
) -> Rejected:
    """Why it lost; its time is that of the same examples, `seconds` for the chosen one."""
    title = candidate.title
    if chosen.layout.optimizer == EIGHT_BIT and candidate.layout.optimizer == "adamw":
        title += " with adamw" * (candidate.adaptation == chosen.adaptation)
    pair = _Pair(candidate, chosen, before, asked)
    reason = next(said(pair) for applies, said in _REASONS if applies(pair))
    time = seconds * pair.ratio if candidate.fits else None
    return Rejected(title, candidate.layout, reason, candidate.memory.peak_allocated_bytes, time)


class _Pair(Struct, frozen=True):
    """A candidate beside the chosen one, and the adaptations that the rules put before that one's."""

    other: Candidate
    chosen: Candidate
    before: Sequence[str]
    asked: str  # where the recipe asks for the chosen one's family; "" where it leaves that open

    @property
    def ratio(self) -> float:
        """Time for the same examples."""
        return seconds_per_sequence(self.other) / seconds_per_sequence(self.chosen)

    @property
    def leaves_idle(self) -> bool:
        """Whether the chosen one is the same on fewer GPUs."""
        one, other = self.chosen.layout, self.other.layout
        return one.strategy == other.strategy and one.mesh.world_size < other.mesh.world_size

    @property
    def fits(self) -> str:
        """That it fits, and how, where that is not as the chosen one does."""
        return f"fits{_otherwise(self.other.layout, self.chosen.layout, batch=True)}"

    @property
    def time(self) -> str:
        near = self.ratio < 1 + 2 * self.chosen.tie  # one digit could be what counts as equal
        return f"{self.fits}, {f'{self.ratio:.2f}x the time' if near else times(self.ratio)}"


_REASONS: tuple[tuple[Callable[[_Pair], bool], Callable[[_Pair], str]], ...] = (  # the first that applies is said
    (lambda it: it.other.over_bytes > 0, lambda it: _over(it.other, it.chosen)),
    (lambda it: bool(it.other.obstacle), lambda it: it.other.obstacle),
    (lambda it: it.other.adaptation in it.before, lambda it: f"{it.time} per example; {measures(it.other)}"),
    (
        lambda it: it.other.adaptation != it.chosen.adaptation and it.ratio < 1 / (1 + it.chosen.tie),
        lambda it: f"{it.time} per example; {_asked(it)}",
    ),
    (
        lambda it: it.other.adaptation != it.chosen.adaptation,
        lambda it: f"{it.time} per example; {_preferred(it)}",
    ),
    (
        lambda it: it.other.crowds_host and not it.chosen.crowds_host,
        lambda it: f"{it.time}, but needs {_crowding(it.other)}",
    ),
    (
        lambda it: it.chosen.of_batch and 1.05 < it.ratio <= 1 + TIE,
        lambda it: f"{it.time}; times within {it.chosen.tie_told}, count as equal",
    ),
    (lambda it: it.ratio > 1.05, lambda it: it.time),
    (
        lambda it: it.leaves_idle and it.ratio * (1 + IDLE_TIE) >= 1,
        lambda it: f"{it.time}; GPUs are used where they save {IDLE_TIE:.0%}, and {_simpler(it)}",
    ),
    (
        lambda it: it.ratio < 1 / (1 + it.chosen.tie),
        lambda it: f"{it.fits}, {1 / it.ratio:.1f}x faster, {_price(it.other)}",
    ),
    (lambda it: not it.other.layout.can_be_built, lambda it: f"{it.time}, and cannot be built yet"),
    (
        lambda it: True,
        lambda it: f"{it.fits}; times within {it.chosen.tie:.0%} of the fastest count as equal, and {_simpler(it)}",
    ),
)


def _asked(pair: _Pair) -> str:
    """Why a faster adaptation is not taken, and how it is."""
    first = f"{adaptation_preferences.id} puts {pair.chosen.adaptation} first for what is learned, not for speed"
    first = _preferred(pair) if pair.asked else first
    return f"{first}: {asking_for(pair.other.layout.adapts, pair.chosen.layout.adapts).told}"


def _preferred(pair: _Pair) -> str:
    """Whose choice the present adaptation is: the recipe's, or recipec's."""
    name = pair.chosen.adaptation
    if not pair.asked:
        return f"recipec prefers {name}"
    return f"{pair.asked} sets {name}, and recipec stores its base in fewer bits only where it does not fit otherwise"


def _otherwise(other: Layout, chosen: Layout, batch: bool = False) -> str:
    """What its figures are for, where that differs from the chosen one: the micro batch, the global `batch`, on which
    the time alone depends, and what is recomputed."""
    parts = [f"micro batch {other.micro_batch}"] * (other.micro_batch != chosen.micro_batch)
    other_batch = batch and abs(other.global_batch - chosen.global_batch) > NEAR * chosen.global_batch
    parts += [f"a global batch of {other.global_batch}"] * other_batch
    if other.recompute_interval != chosen.recompute_interval:
        some = f" in one of {other.recompute_interval} layers" * (other.recompute_interval > 1)
        parts.append(f"gradient checkpointing{some}" if other.checkpointing else "no gradient checkpointing")
    *first, last = parts or [""]
    return f" with {', '.join(first)}{' and ' * bool(first)}{last}" if last else ""


def _over(candidate: Candidate, chosen: Candidate) -> str:
    allocated, missing = candidate.memory.peak_allocated_bytes / GIB, gib(candidate.over_bytes)
    how = _otherwise(candidate.layout, chosen.layout)
    return f"needs {allocated:,.1f} GiB allocated{how}, {missing} too much{_whole_teacher(candidate, chosen)}"


def _whole_teacher(candidate: Candidate, chosen: Candidate) -> str:
    """That a strategy shards the model and not its teacher, where the chosen one shards both."""
    whole, part = (each.memory.terms.get("teacher_model", 0) for each in (candidate, chosen))
    if not candidate.layout.spreads.shards_weights or whole < 2 * part or not part:
        return ""
    return f"; {candidate.layout.strategy} keeps the teacher whole on each GPU, {gib(whole)}"


def _crowding(candidate: Candidate) -> str:
    room = "is assumed to be usable" if candidate.host_assumed else "is usable"
    return f"{candidate.host_bytes / GIB:,.0f} GiB of host memory per node, more than {room}"


def _price(candidate: Candidate) -> str:
    """What a faster layout has against it."""
    if not candidate.layout.can_be_built:
        return "and cannot be built yet"
    times = f"; recipec takes it from {1 + OFFLOAD_TIE:g} times the speed on" * candidate.layout.offloads
    return f"with more data in host memory{times}"


def _simpler(pair: _Pair) -> str:
    """What the chosen one of two that are equally fast has for it."""
    other, chosen = pair.other.layout, pair.chosen.layout
    if pair.chosen.by_memory and pair.other.memory.peak_allocated_bytes > pair.chosen.memory.peak_allocated_bytes:
        return "the recipe puts memory first"
    if rank_of(pair.other) != rank_of(pair.chosen):
        return f"{chosen.strategy} is simpler"
    if other.strategy != chosen.strategy:
        return f"of these two the faster is taken, {chosen.strategy}"
    if other.offloads and not chosen.offloads:
        return "the optimizer states stay on the GPUs"
    if other.hosts_weights and not chosen.hosts_weights:
        return "the weights stay on the GPUs"
    if other.activation_offload and not chosen.activation_offload:
        return "the activations stay on the GPUs"
    return f"{counted(chosen.mesh.world_size, 'GPU')} {'is' if chosen.mesh.world_size == 1 else 'are'} enough"


def measures(candidate: Candidate) -> str:
    """What a layout takes that one of another adaptation does without."""
    return "only with data in host memory" if not candidate.layout.on_device else "only with model parallelism"


def preferred_but_passed_over(found: Fit, gpu: Gpu, noun: str) -> str:
    """Why the adaptations that the rules put before the chosen one were not taken; empty where there are none."""
    assert found.chosen is not None
    groups: dict[str, list[Candidate]] = {}
    for candidate in found.tried:
        groups.setdefault(candidate.adaptation, []).append(candidate)
    before = list(groups)[: list(groups).index(found.chosen.adaptation)]
    obstacles = [
        _slower(groups[name], found.chosen) or _obstacle(nearest_of(groups[name]), gpu, noun) for name in before
    ]
    stage = found.chosen.stage
    obstacles += [f"{adaptation_name(stage, bad.layout)} is not supported ({bad.row.id})" for bad in found.ruled_out]
    return f"{'; '.join(obstacles)}, so {found.chosen.adaptation} is used" if obstacles else ""


def _slower(group: list[Candidate], chosen: Candidate) -> str:
    """How much longer an adaptation takes that fits without more measures; "" where none of it does."""
    layouts = [other for other in group if other.fits and other.layout.can_be_built]
    if not any(other.layout.on_device for other in layouts):
        return ""
    fastest, least = min(layouts, key=seconds_per_sequence), min(each.memory.peak_allocated_bytes for each in layouts)
    if chosen.by_memory and least > chosen.memory.peak_allocated_bytes:
        return f"{fastest.adaptation} takes {gib(least)} at least"
    return f"{fastest.adaptation} fits, but takes {times(seconds_per_sequence(fastest) / seconds_per_sequence(chosen))}"


def _obstacle(candidate: Candidate, gpu: Gpu, noun: str) -> str:
    """What stands against the nearest layout of an adaptation."""
    if candidate.fits:
        return f"{candidate.adaptation} fits {measures(candidate)}"
    if candidate.over_bytes <= 0:
        return f"{candidate.adaptation} {candidate.obstacle}"
    needed = gpu_gib(gpu, candidate.memory.peak_allocated_bytes, candidate.layout.mesh.world_size)
    return f"{candidate.adaptation} needs {enough_gib(needed)} per {noun}, which has {gpu.memory_gib:.1f} GiB"


def activations_kept(
    context: Context, ledger: Ledger, chosen: Candidate, bounds: Bounds, seconds: float
) -> list[Rejected]:
    """The same without gradient checkpointing, where it is only used because memory comes first, and slower."""
    default, layout = ledger.decisions["checkpointing_default"], chosen.layout
    first = ledger.decisions["priority"].value == "memory"
    if (
        not first
        or not layout.checkpointing
        or "train.activation_checkpointing" in ledger.wishes
        or layout.activation_offload
    ):
        return []
    kept, facts = replace(layout, checkpointing=False, recompute_every=1), context.facts
    (found,) = candidates([kept], facts.model.architecture, work_of(ledger, facts), facts.gpu, bounds)
    if not found.fits or (ratio := seconds_per_sequence(found) / seconds_per_sequence(chosen)) >= 1:
        return []
    faster = f"fits, {times(ratio)}, but the recipe puts memory first ({default.rule})"
    reason = f"{faster}; set `train.activation_checkpointing = false` to do without"
    peak = found.memory.peak_allocated_bytes
    return [Rejected(f"{found.title} without gradient checkpointing", found.layout, reason, peak, seconds * ratio)]


def ruled_out(stage: str, refusal: Refusal) -> Rejected:
    """An adaptation that the rules would rather have, of which no layout is known to work here."""
    return Rejected(
        adaptation_name(stage, refusal.layout),
        refusal.layout,
        f"not supported: {refusal.row.title} ({refusal.row.id})",
        None,
    )


def does_not_fit(
    context: Context,
    others: Sequence[Context],
    loaded: LoadedRecipe,
    found: Fit,
    terms: Conditions,
) -> Diagnostic:
    """Nothing fits: say by how much, and which changes of the recipe would fit."""
    gpu, gpus, stage = context.facts.gpu, context.facts.machines.gpus, context.stage.label
    key = "gpu" if loaded.is_set("hardware", "gpu") else "vram_gib"
    label = Label(loaded.place("hardware", key, part="value"), f"{gpus} x {gpu.memory_gib:.1f} GiB")
    labels = (label, *_adapter_asked(loaded, context))
    groups: dict[str, list[Candidate]] = {}
    for candidate in found.tried:
        groups.setdefault(candidate.family, []).append(candidate)
    closest = sorted(map(nearest_of, groups.values()), key=lambda candidate: candidate.over_bytes)[:CLOSEST]
    reasons = ((candidate, _reason(candidate, candidate, 1).reason) for candidate in closest)
    notes = tuple(f"{each.title}{_written(context, each)}: {reason}" for each, reason in reasons)
    given = (context, others, loaded)
    ways = [*_with_host_memory(*given, found.tried, terms), *ways_out(*given, terms)]
    help = tuple(by_cost(ways)) or ("no change that was tried is enough; use a smaller model, or more or larger GPUs",)
    notes += _served_on_one_node(context)
    return Diagnostic("E0402", f"stage {stage} of {context.facts.model.name} does not fit", labels, help, notes)


def _served_on_one_node(context: Context) -> tuple[str, ...]:
    """What would take the copy of the weights off the GPUs of several nodes, and is not built."""
    wish = context.wishes.get(f"alignment.{ENGINE.key}")
    copied = wish is not None and GENERATORS[wish.value].own_copy
    return (ONE_NODE,) if copied and context.facts.machines.nodes > 1 else ()


def _written(context: Context, candidate: Candidate) -> str:
    """The global batch of answers: memory grows with those that a rank writes together, and a plan may raise it."""
    method = METHODS[context.stage.name]
    batch = counted(candidate.layout.global_batch, method.example)
    return f" with a global batch of {batch}" if method.generates else ""


def _with_host_memory(
    context: Context, others: Sequence[Context], loaded: LoadedRecipe, tried: Sequence[Candidate], terms: Conditions
) -> Iterator[WayOut]:
    """What fits where a node has more host memory than is assumed; what is stated or measured is believed."""
    own = least_host(tried)
    if own is None:
        return
    unfit = [other for other in others if fitting(other, loaded) is None]
    wanted = max(own, *(least_host(fit(other, loaded).tried) or 0 for other in unfit), 0)
    stated = stating(loaded, host_memory_gib=wanted)
    pairs = all_fitting([context, *others], stated)
    if pairs:
        change = setting(hardware__host_memory_gib=wanted).joined(terms.beside)
        yield way(change, pairs, stated, (), terms, context, " if a node has it")


def _adapter_asked(loaded: LoadedRecipe, context: Context) -> Iterator[Label]:
    """The table that keeps the planner to adapters without naming the adaptation."""
    wish = context.wishes.get("train.adaptation")
    if wish is not None and wish.implied_by:
        yield Label(loaded.place(*wish.implied_by.split("."), part="key"), "asks for an adapter")
