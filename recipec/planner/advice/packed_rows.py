"""Packed rows, or rows of their own, where the plan has the others: each is planned, also beside a stated value."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.axes.attention import ATTENTIONS, BOUNDARIES
from recipec.layout import Layout
from recipec.planner.advice.change import Change, Proposal, planned, setting
from recipec.planner.advice.whole_runs import WORTH_NAMING, WholeRuns, pass_seconds
from recipec.planner.search.bounds import bounds_of
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Ledger, Wish
from recipec.units import times

LITTLE_PADDING = 0.01  # of the tokens of a batch: less is no reason; our decision
PACKING, _ATTENTION = "train.packing", "train.attention"
_UNPROVEN = "recipec does not take it by itself, as no run of it on a GPU is recorded (PREC-002)"
_WITH_MASK = "recipec does not take it by itself, as no run with such a mask on a GPU is recorded (DATA-002)"
_OF_ROWS = ("train.global_batch_size", "train.micro_batch_size")  # a packed sequence is many of them


def packed_rows(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """Rows without padding: with a kernel that is told where they begin, or else with a mask; and rows of their own in
    the place of packed ones that the recipe states."""
    assert found.ledger is not None
    given = found.ledger.decisions
    if METHODS[context.stage.name].packs != "examples":
        return
    packed, masks = given["packing"].value, ATTENTIONS[given["attention"].value].apart != BOUNDARIES
    kernel = next((row.name for row in ATTENTIONS.values() if row.apart == BOUNDARIES and row.brought), "")
    if kernel and masks and given["gpu_varlen"].value and _ATTENTION not in context.wishes:
        refused = {PACKING: True} if PACKING in context.wishes and not packed else {}
        change = Change(((_ATTENTION, kernel), *refused.items()))
        yield from _timed(context, found, loaded, runs, change, _UNPROVEN)
    elif not packed and not given["gpu_is_cpu"].value:
        yield from _timed(context, found, loaded, runs, Change(((PACKING, True),)), _WITH_MASK)
    if packed and PACKING in context.wishes:
        yield from _timed(context, found, loaded, runs, Change(((PACKING, False),)))


def mask_costs(context: Context, found: Fit, ledger: Ledger, loaded: LoadedRecipe) -> None:
    """Say of stated packing with a mask how much longer it takes than rows of their own, where that is planned."""
    packing = ledger.decisions["packing"]
    masks = ATTENTIONS[ledger.decisions["attention"].value].apart != BOUNDARIES
    stated = METHODS[context.stage.name].packs == "examples" and PACKING in context.wishes
    if not (stated and packing.value and masks):
        return
    then = fit(_with(context, setting(train__packing=False), other_rows=True), loaded)
    if then.chosen is not None and _same(then.chosen, found.chosen) and _ratio(then, found) <= WORTH_NAMING:
        costs = f"with the mask, training takes {times(1 / _ratio(then, found))} that it takes without packing"
        ledger.decisions[packing.id] = replace(packing, because=f"{packing.because}; {costs}")


def _timed(
    context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns, change: Change, *but: str
) -> Iterator[Proposal]:
    """A change with which rows are packed otherwise, where it is planned to be faster with about as many examples in a
    step: of few rows the last step may be the larger part, so the whole run counts as well."""
    assert found.chosen is not None
    now = found.chosen.layout
    other_rows = dict(change.sets).get(PACKING, True) != now.packing
    changed = _with(context, change, other_rows)
    then = fit(changed, loaded)
    if then.chosen is None or not then.chosen.layout.can_be_built or not _same(then.chosen, found.chosen):
        return
    ratio, run = _ratio(then, found), runs.of(changed, then)
    if ratio <= WORTH_NAMING and run.seconds <= WORTH_NAMING * runs.now.seconds:
        stated = tuple(_of_sequences(context, then.chosen.layout)) if other_rows else ()
        alike = ", with about as many examples in a step" * bool(stated)
        why = " and ".join(_gains(context, found, then, loaded))
        rows = "packed rows" if then.chosen.layout.packing else "rows that are not packed"
        effect = f"{rows} take {ratio:.2f}x the time{alike}{', as ' * bool(why)}{why}; {run.beside}"
        yield planned(Change((*change.sets, *stated)), effect, found.chosen, then.chosen, but=but)


def _with(context: Context, change: Change, other_rows: bool) -> Context:
    """The stage with a change; batches that the recipe states of other rows are left to the rules."""
    free = {key: wish for key, wish in context.wishes.items() if not other_rows or key not in _OF_ROWS}
    return replace(context, wishes={**free, **{key: Wish(value, "an option") for key, value in change.sets}})


def _gains(context: Context, found: Fit, then: Fit, loaded: LoadedRecipe) -> Iterator[str]:
    """What changes of a micro step: a mask that is no longer needed, or padding, which a single row has not got, and
    how full it is."""
    assert found.chosen is not None and found.ledger is not None and then.chosen is not None and then.ledger is not None
    if found.chosen.layout.packing:
        yield "the dense mask that keeps packed rows apart now costs time"
        return
    rows, bounds = found.chosen.layout.micro_batch, bounds_of(context, found.ledger, loaded)
    usual = bounds.typical.seq_len_tokens
    padded = bounds.padded_tokens(rows)
    share = 1 - usual / padded
    tokens, packed = rows * padded, then.chosen.layout.micro_batch * then.ledger.decisions["max_length"].value
    if share >= LITTLE_PADDING:
        yield f"{share:.0%} of the tokens of a batch are padding now"
    if packed >= tokens / WORTH_NAMING:
        yield f"a micro step has {packed:,} tokens instead of about {tokens:,}"


def _of_sequences(context: Context, then: Layout) -> Iterator[tuple[str, int]]:
    """The batches that the recipe states in rows, in packed sequences, or the other way round."""
    for key, size in zip(_OF_ROWS, (then.global_batch, then.micro_batch), strict=True):
        if key in context.wishes and context.wishes[key].value != size:
            yield key, size


def _ratio(then: Fit, found: Fit) -> float:
    return pass_seconds(then) / pass_seconds(found)


def _same(other: Candidate, chosen: Candidate | None) -> bool:
    return chosen is not None and other.layout.adapts is chosen.layout.adapts
