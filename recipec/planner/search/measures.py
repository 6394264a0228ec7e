"""The choice of a stage with one global batch. Measures that take less effort come first.

The adaptations stand in the order in which the rules would have them. Each step below is for what the ones before it
leave without a layout that fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS
from recipec.layout import Layout
from recipec.planner.search.bounds import TIE, bounds_of
from recipec.planner.search.candidates import Candidate, candidates, seconds_per_sequence
from recipec.planner.search.context import Context, settle
from recipec.planner.search.known_bad import Refusal, judged
from recipec.planner.search.layouts import layouts
from recipec.planner.search.preference import MOSTLY, PARTLY, best, clearly_faster, waiting_share
from recipec.planner.search.room import short_of_room
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.rules import adaptation as adaptations
from recipec.rules.core import Ledger
from recipec.units import GIB, counted, gib

PLAIN, ONE_MEASURE, TWO_MEASURES, STATES_ON_HOST = range(4)  # what a layout takes, less first
# Times the time of another training from which the preferred one gives way to it: to the same on another base, and all
# weights to adapters, which compute about a third less; what is beyond that, full fine-tuning waits for. Our decision.
FAR_SLOWER, FAR_SLOWER_IN_FULL = 2.0, 4.0


class Fit(Struct, frozen=True):
    """What was tried; `chosen` and `ledger` are None when nothing fits."""

    chosen: Candidate | None
    ledger: Ledger | None
    tried: Sequence[Candidate]  # in order of preference, the chosen one among them
    bad: Sequence[Refusal]  # why layouts of the preferred adaptation were left out before they were estimated
    ruled_out: Sequence[Refusal] = ()  # of each adaptation before the chosen one that left none at all, the first
    larger: Sequence[Candidate] = ()  # the same with the largest global batch, where that was looked at and not taken
    gave_way: tuple[Candidate, Ledger] | None = None  # what the rules put first, and is far slower than the chosen one


class Tried(Struct):
    """An adaptation with its layouts so far, in the order in which they are looked at."""

    ledger: Ledger
    layouts: list[Candidate]
    refused: Sequence[Refusal] = ()  # why others were left out before they were estimated

    @property
    def name(self) -> str:
        return self.layouts[0].layout.adaptation


class Search(Struct):
    """A stage, and what was tried for it."""

    context: Context
    loaded: LoadedRecipe
    tried: list[Tried] = []
    small: Tried | None = None  # all weights with optimizer states in 8 bits, where they were looked at

    @property
    def plain(self) -> int:
        """The effort of a layout that takes no more than the recipe asks for."""
        asked = self.context.wishes.get("train.activation_offload")
        return ONE_MEASURE if asked is not None and asked.value else PLAIN

    def candidates(self, ledger: Ledger, on_host: bool = False, shared: bool = False) -> Tried:
        """The layouts of an adaptation, without those that are known to fail."""
        facts, shape = self.context.facts, self.context.facts.model.architecture
        work = work_of(ledger, facts)
        found = list(judged(layouts(ledger, on_host, shared), ledger.decisions, shape, work))
        allowed = [layout for layout, refusal in found if refusal is None]
        refused = [refusal for _, refusal in found if refusal is not None]
        bounds = bounds_of(self.context, ledger, self.loaded)
        return Tried(ledger, candidates(allowed, shape, work, facts.gpu, bounds), refused)

    def again(self, like: Tried, **changed: str) -> Ledger:
        """The decisions of an adaptation in another context."""
        return settle(replace(self.context, **changed), like.name, like.ledger.decisions["adaptation"].because)

    def with_own_batch(self, each: Tried) -> Tried:
        """The same where the recipe sets a larger global batch than the rule of this adaptation accepts: with the
        largest that it accepts, which is what the adaptation is compared with where no recipe sets any."""
        batch = each.ledger.decisions["global_batch_size"]
        if batch.origin != "recipe" or batch.accepts is None or batch.value <= batch.accepts[1] or not each.layouts:
            return each
        free = {key: wish for key, wish in self.context.wishes.items() if key != batch.key}
        context = replace(self.context, wishes=free, least_batch=batch.value)
        return self.candidates(settle(context, each.name, each.ledger.decisions["adaptation"].because))

    def chosen(self, chosen: Candidate | None, ledger: Ledger | None, *beside: Iterable[Candidate]) -> Fit:
        """The result, with all that was tried."""
        tried = [*(each for group in self.tried for each in group.layouts), *(each for some in beside for each in some)]
        return Fit(chosen, ledger, tried, self.tried[0].refused if self.tried else [])


def choose(context: Context, loaded: LoadedRecipe) -> Fit:
    """The choice with the global batch of this context."""
    search = Search(context, loaded)
    search.tried = [search.candidates(settle(context, *each)) for each in acceptable_adaptations(context)]
    dispatches = any("capacity_factor" in each.ledger.decisions for each in search.tried)
    found = (step(search) for step in (_STEPS if dispatches or not context.built else _STEPS[:-1]))
    return next(filter(None, found), None) or search.chosen(None, None, search.small.layouts if search.small else ())


def beside_shared(context: Context, found: Fit, loaded: LoadedRecipe) -> Fit:
    """The same, with layouts that share layers between ranks tried too, which a plan names where they are faster."""
    if found.chosen is None or found.ledger is None or found.chosen.layout.mesh.ranks_per_layer > 1:
        return found
    shared = Search(context, loaded).candidates(found.ledger, shared=True)
    return replace(found, tried=[*found.tried, *shared.layouts])


def _plain(search: Search) -> Fit | None:
    """Nothing in host memory and no shared layers, but where that is clearly faster."""
    place, plain = _first(search, search.plain)
    if plain is None:
        return None
    tried = search.tried[place]
    chosen = _beside_host(search, tried, plain)
    if chosen.layout.offloads or waiting_share(chosen) > MOSTLY:
        small = _with_small_states(search, _too_slow(plain))
        quick = _on_gpus(search, small) if small else None
        if small and quick is not None and clearly_faster(quick, chosen):
            return replace(search.chosen(quick, small.ledger, small.layouts), gave_way=(plain, tried.ledger))
    return _beside_others(search, place, chosen)


def _beside_host(search: Search, tried: Tried, plain: Candidate) -> Candidate:
    """What takes no host memory, or what does, where GPUs are idle or wait, or micro batches are small for lack of
    memory, and that is clearly faster."""
    hindered = _leaves_work(plain, search.context) or waiting_share(plain) > PARTLY
    if hindered or short_of_room(plain, search.context.facts, bounds_of(search.context, tried.ledger, search.loaded)):
        tried.layouts += search.candidates(tried.ledger, on_host=True).layouts
    return _best_with(search.plain, tried.layouts) or plain


def _on_gpus(search: Search, small: Tried) -> Candidate | None:
    """The best with 8-bit states on the GPUs, with activations in host memory where it takes that."""
    if (found := _best_with(search.plain, small.layouts)) is None:
        small.layouts += search.candidates(small.ledger, on_host=True).layouts
        found = _best_with(ONE_MEASURE, small.layouts)
    return found


def _small_states(search: Search) -> Fit | None:
    """8-bit optimizer states, but where activations in host memory leave room for fp32 ones and are clearly faster."""
    search.small = small = _with_small_states(search, _too_large(search))
    chosen = _best_with(search.plain, small.layouts) if small else None
    if small is None or chosen is None:
        return None
    chosen = _beside_host(search, small, chosen)
    in_full = search.candidates(search.again(small, small_states=""), on_host=True).layouts
    hosted = _best_with(ONE_MEASURE, in_full)
    if hosted is not None and _as_good(hosted, chosen):
        return None
    return search.chosen(chosen, _beside_hosted(small.ledger, hosted, chosen), in_full, small.layouts)


def _as_good(in_full: Candidate, small: Candidate) -> bool:
    """Whether fp32 states are worth data in host memory, which 8-bit ones may take as well."""
    return clearly_faster(in_full, small) or not (small.layout.on_device or clearly_faster(small, in_full))


def _one_measure(search: Search) -> Fit | None:
    """Activations in host memory, or layers that ranks share where the recipe asks for it."""
    for each in search.tried:
        each.layouts += search.candidates(each.ledger, on_host=True).layouts
    return _any(search, ONE_MEASURE)


def _without_dropout(search: Search) -> Fit | None:
    """Adapters that fit without their dropout, where the rules put adapters first: a mask and a copy of each input."""
    if search.tried and search.tried[0].layouts and search.tried[0].layouts[0].layout.adapts.trains_all:
        return None
    for each in search.tried:
        dropout = each.ledger.decisions.get("lora_dropout")
        if not each.layouts or dropout is None or not dropout.value or dropout.origin == "recipe":
            continue
        why = f"with {dropout.value:g} nothing fits: each adapted input then has a mask and a copy"
        ledger = search.again(each, undropped=why)
        found = [*search.candidates(ledger).layouts, *search.candidates(ledger, on_host=True).layouts]
        if (chosen := _best_with(ONE_MEASURE, found)) is not None:
            return search.chosen(chosen, ledger, found)
    return None


def _two_measures(search: Search) -> Fit | None:
    return _any(search, TWO_MEASURES)


def _small_states_and_activations_on_host(search: Search) -> Fit | None:
    """With activations in host memory, 8-bit states may stay on the GPUs."""
    if search.small is None:
        return None
    hosted = search.candidates(search.small.ledger, on_host=True).layouts
    if (chosen := _best_with(ONE_MEASURE, hosted)) is None:
        return None
    return search.chosen(chosen, search.small.ledger, search.small.layouts, hosted)


def _states_on_host(search: Search) -> Fit | None:
    return _any(search, STATES_ON_HOST)


def _shared_layers(search: Search) -> Fit | None:
    """Layers that ranks share, which can be planned and not built: with as little else as fits."""
    for each in search.tried:
        for on_host in (False, True):
            each.layouts += search.candidates(each.ledger, on_host, shared=True).layouts
    found = (_any(search, effort) for effort in (ONE_MEASURE, TWO_MEASURES, STATES_ON_HOST))
    return next(filter(None, found), None)


_STEPS = (
    *(_plain, _small_states, _one_measure, _without_dropout, _two_measures),
    *(_small_states_and_activations_on_host, _states_on_host, _shared_layers),
)


def _any(search: Search, effort: int) -> Fit | None:
    """The first adaptation with a layout of so much effort."""
    place, chosen = _first(search, effort)
    return None if chosen is None else _beside_others(search, place, chosen)


def _first(search: Search, effort: int) -> tuple[int, Candidate | None]:
    found = ((place, _best_with(effort, each.layouts)) for place, each in enumerate(search.tried))
    return next(((place, chosen) for place, chosen in found if chosen is not None), (0, None))


def _beside_others(search: Search, place: int, chosen: Candidate) -> Fit:
    """What was found first, or one of the adaptations before or after it that takes its place."""
    ledger, before, after = search.tried[place].ledger, search.tried[:place], search.tried[place + 1 :]
    preferred = _faster(before, chosen)
    quicker = None if preferred else _far_slower(after, chosen)
    if quicker and not _far_slower([search.with_own_batch(each) for each in after], chosen):
        quicker = None
    found = search.chosen(*(preferred or quicker or (chosen, ledger)))
    none_left = [each.refused[0] for each in before if each.refused and not each.layouts]
    return replace(found, ruled_out=none_left, gave_way=(chosen, ledger) if quicker else None)


def _faster(before: Sequence[Tried], chosen: Candidate) -> tuple[Candidate, Ledger] | None:
    """What the rules would rather have, where it takes more effort but is clearly faster all the same."""
    for each in before:
        found = best([candidate for candidate in each.layouts if candidate.layout.can_be_built])
        if found is not None and clearly_faster(found, chosen):
            return found, each.ledger
    return None


def _far_slower(after: Sequence[Tried], chosen: Candidate) -> tuple[Candidate, Ledger] | None:
    """What stays on the GPUs, where the choice is far slower than that, or takes more of the memory that comes first.

    Of the adaptations that come next it is the first that is not far slower than the fastest of them.
    """
    plain = [(_best_with(PLAIN, each.layouts), each.ledger) for each in after]
    found = [(other, ledger) for other, ledger in plain if other is not None and other.layout.on_device]
    quicker = [each for each in found if _takes_its_place(*each, chosen)]
    if not quicker:
        return None
    fastest = min(quicker, key=lambda each: seconds_per_sequence(each[0]))
    return next(each for each in found if each == fastest or not _takes_its_place(*fastest, each[0]))


def _takes_its_place(other: Candidate, ledger: Ledger, chosen: Candidate) -> bool:
    return seconds_per_sequence(chosen) > _limit(other, ledger, chosen) * seconds_per_sequence(other)


def _limit(other: Candidate, ledger: Ledger, chosen: Candidate) -> float:
    """Times the time of the other one that the chosen one may take."""
    if chosen.by_memory and other.memory.peak_allocated_bytes < chosen.memory.peak_allocated_bytes:
        return 1 / (1 + TIE)
    if ledger.decisions["priority"].value == "speed":
        return 1 + TIE
    if other.layout.adapts.family == chosen.layout.adapts.family:
        return FAR_SLOWER
    return FAR_SLOWER_IN_FULL if chosen.layout.adapts.trains_all else inf


def _in_full(search: Search) -> Iterator[Tried]:
    """What trains all weights, with its layouts whose states are on the GPUs."""
    for each in search.tried:
        with_states = [candidate for candidate in each.layouts if not candidate.layout.offloads]
        if with_states and with_states[0].layout.adapts.trains_all:
            yield Tried(each.ledger, with_states)


def _too_large(search: Search) -> str:
    """Why the states of AdamW are not kept in fp32, where no layout has room for them."""
    peaks = (candidate.memory.peak_allocated_bytes for each in _in_full(search) for candidate in each.layouts)
    return f"the fp32 states of AdamW do not fit on the GPUs: {min(peaks, default=0) / GIB:,.1f} GiB allocated"


def _too_slow(plain: Candidate) -> str:
    """The same where the layouts that have room mostly wait."""
    on = f"on {counted(plain.layout.mesh.world_size, 'GPU')}"
    return f"with the fp32 states of AdamW {on}, {waiting_share(plain):.0%} of a step waits for other GPUs"


def _with_small_states(search: Search, why: str) -> Tried | None:
    """The adaptation that trains all weights with 8-bit optimizer states, where the rules accept it."""
    for each in _in_full(search):
        small = search.again(each, small_states=f"{why}; 8-bit ones take 2 bytes of 8")
        if small.decisions["optimizer"].value == each.ledger.decisions["optimizer"].value:
            return None
        return search.candidates(small)
    return None


def _beside_hosted(ledger: Ledger, found: Candidate | None, chosen: Candidate) -> Ledger:
    """With what is left of the reason for 8-bit states where fp32 ones fit as well: OPT-002 puts 8-bit ones first."""
    if found is not None:
        decided, ratio = ledger.decisions["optimizer"], seconds_per_sequence(found) / seconds_per_sequence(chosen)
        fits = (
            f"with activations in host memory they fit in {gib(found.memory.peak_allocated_bytes)} at {ratio:.2f}x the"
        )
        because = f"{decided.because}; {fits} time, and recipec takes 8-bit states before data in host memory"
        ledger.decisions[decided.id] = replace(decided, because=because)
    return ledger


def idles(chosen: Candidate, context: Context) -> bool:
    """Whether GPUs of the recipe have no work."""
    return chosen.layout.gpus < context.facts.machines.gpus


def _leaves_work(chosen: Candidate, context: Context) -> bool:
    """Whether idle GPUs could have a share of the global batch."""
    each = chosen.layout.micro_batch * chosen.layout.accumulation
    return idles(chosen, context) and each > METHODS[context.stage.name].least_micro_batch


def _best_with(effort: int, group: list[Candidate]) -> Candidate | None:
    """The best with no more than `effort`; where there is one, layouts that use host memory may be clearly faster."""
    fitting = [candidate for candidate in group if candidate.fits and _effort(candidate.layout) <= effort]
    if not fitting:
        return None
    hosted = [candidate for candidate in group if not candidate.layout.on_device and candidate.layout.can_be_built]
    return best([*fitting, *hosted])


def _effort(layout: Layout) -> int:
    """Another adaptation comes before spreading layers over ranks or holding activations in host memory, one of these
    before both, and all that before holding states in host memory."""
    if layout.offloads:
        return STATES_ON_HOST
    return (layout.mesh.ranks_per_layer > 1) + layout.activation_offload


def acceptable_adaptations(context: Context) -> list[tuple[str, str]]:
    """The acceptable adaptations in order of preference, each with its reason."""
    given = {id: decision.value for id, decision in context.ledger().decisions.items()}
    names = ("stage", "priority", "new_domain", "first_time", "data_rows", "params", "total_vram_gb", "gpu_is_cpu")
    choice = adaptations.adaptation_preferences(*(given[name] for name in names))
    wish = {key: value.value for key, value in context.wishes.items()}
    allowed = adaptations.wished(
        choice.value,
        METHODS[context.stage.name].adaptations,
        *map(wish.get, ("train.adaptation", "train.quantization")),
    )
    first = choice.value[0]
    return [
        (name, choice.because if name == first else f"{ADAPTATIONS[name].because}; {choice.because}")
        for name in allowed
        if context.only in ("", name)
    ]
