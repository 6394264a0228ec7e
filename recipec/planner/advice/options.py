"""What a recipe may also choose beside a plan that fits, each timed: more that is trained, a quantized base,
8-bit states, packed rows, another engine of generation, more answers together, fewer GPUs, a larger micro batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.axes.attention import ATTENTIONS, BOUNDARIES
from recipec.layout import Layout
from recipec.planner.advice.begins_anew import with_checkpoints
from recipec.planner.advice.change import Change, Proposal, planned
from recipec.planner.advice.faster_layout import faster_layout
from recipec.planner.advice.fewer_gpus import fewer_gpus
from recipec.planner.advice.host_memory import with_host_memory
from recipec.planner.advice.keys import as_written
from recipec.planner.advice.larger_batch import larger_batch
from recipec.planner.advice.next_better import next_better, on_present_gpus
from recipec.planner.advice.other_base import quantized_base
from recipec.planner.advice.other_engines import other_engine
from recipec.planner.advice.smaller_states import in_8_bits
from recipec.planner.advice.ways_out import holds_for
from recipec.planner.advice.whole_runs import WORTH_NAMING, WholeRuns, pass_seconds
from recipec.planner.advice.written_together import more_answers, older_answers
from recipec.planner.plan import StagePlan
from recipec.planner.search.bounds import bounds_of
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit, fit
from recipec.recipe import LoadedRecipe
from recipec.rules.core import Wish

LITTLE_PADDING = 0.01  # of the tokens of a batch: less is no reason; our decision
_UNPROVEN = "recipec does not take it by itself, as no run of it on a GPU is recorded (PREC-002)"
_WITH_MASK = "recipec does not take it by itself, as no run with such a mask on a GPU is recorded (DATA-002)"
_OF_ROWS = ("train.global_batch_size", "train.micro_batch_size")  # a packed sequence is many of them


def with_options(
    context: Context, others: Sequence[Context], found: Fit, loaded: LoadedRecipe, runs: WholeRuns, plan: StagePlan
) -> StagePlan:
    """The plan with what the recipe may choose instead, beside the `others`, the stages before and behind it."""
    assert found.chosen is not None
    better = next_better(context, found.chosen, found.tried, loaded)
    return replace(plan, options=_options(context, others, found, loaded, runs, plan), next_better=better)


def _options(
    context: Context, others: Sequence[Context], found: Fit, loaded: LoadedRecipe, runs: WholeRuns, plan: StagePlan
) -> tuple[str, ...]:
    """Changes of a plan that fit as well, with what they give."""
    larger = (f"a micro batch of {plan.next_micro_batch}",) if plan.next_micro_batch else ()
    proposals = _proposals(context, found, loaded, runs)
    ours = filter(None, (_beside(each, context, others, loaded) for each in proposals))
    return (*(each.told for each in ours), *larger)


def _proposals(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """What may be changed for a stage, were it the only one."""
    yield from (
        *on_present_gpus(context, found, loaded, runs),
        *quantized_base(context, found, loaded, runs),
        *in_8_bits(context, found, loaded, runs),
        *_packed(context, found, loaded, runs),
        *with_host_memory(context, found, loaded, runs),
        *faster_layout(context, found, loaded, runs),
        *other_engine(context, found, loaded, runs),
        *older_answers(context, found, loaded, runs),
        *more_answers(context, found, loaded, runs),
        *larger_batch(context, found, loaded, runs),
        *fewer_gpus(context, found, loaded, runs),
        *with_checkpoints(context, found, loaded, runs),
    )


def _beside(each: Proposal, context: Context, others: Sequence[Context], loaded: LoadedRecipe) -> Proposal | None:
    """A proposal with the keys of its stage, beside others; None where keys of all stages leave one of them none."""
    change = as_written(each.change, context)
    shared = Change(tuple(pair for pair in each.change.sets if pair in change.sets))
    asked = [(each.change if other.stage.name == context.stage.name else shared, other) for other in others]
    holds = all(holds_for(keys, [other], loaded) for keys, other in asked if keys.sets)
    return replace(each, change=change, effect=_with_layout(each, context.stage.name)) if holds else None


def _with_layout(each: Proposal, stage: str) -> str:
    """The effect, and what its plan takes otherwise that neither the change nor the effect names: ", with fsdp"."""
    now, then, said = each.now, each.then, f"{each.change.told}: {each.effect}"
    if not isinstance(now, Layout):
        return each.effect
    named, keys = METHODS[stage].called(then.adapts), dict(each.change.sets)
    other = [named] * (now.adapts is not then.adapts and not {"train.adaptation", "train.quantization"} & keys.keys())
    strategy = then.strategy if then.mesh.world_size > 1 else "1 GPU"
    other += [strategy] * (now.strategy != then.strategy and "hardware.gpus_per_node = 1`" not in said)
    other += ["data in host memory"] * (now.on_device and not then.on_device and "host memory" not in said)
    other += ["nothing in host memory"] * (then.on_device and not now.on_device and "host memory" not in said)
    unsaid = [words for words in other if words not in said]
    return f"{each.effect}, with {' and '.join(unsaid)}" if unsaid else each.effect


def _packed(context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns) -> Iterator[Proposal]:
    """Rows without padding: with a kernel that is told where they begin, or else with a mask."""
    assert found.ledger is not None
    given, wishes = found.ledger.decisions, context.wishes
    if METHODS[context.stage.name].packs != "examples" or given["packing"].value or "train.packing" in wishes:
        return
    kernel = next((row.name for row in ATTENTIONS.values() if row.apart == BOUNDARIES and row.brought), "")
    if kernel and given["gpu_varlen"].value and "train.attention" not in wishes:
        yield from _timed(context, found, loaded, runs, ("train.attention", kernel), _UNPROVEN)
    elif not given["gpu_is_cpu"].value:
        yield from _timed(context, found, loaded, runs, ("train.packing", True), _WITH_MASK)


def _timed(
    context: Context, found: Fit, loaded: LoadedRecipe, runs: WholeRuns, change: tuple[str, object], but: str
) -> Iterator[Proposal]:
    """A change of one key that packs, where it is planned to be faster with about as many examples in a step: of few
    rows the last step may be the larger part, so the whole run counts as well."""
    assert found.chosen is not None
    key, value = change
    free = {key: wish for key, wish in context.wishes.items() if key not in _OF_ROWS}
    packed = replace(context, wishes={**free, key: Wish(value, "an option")})
    then = fit(packed, loaded)
    if then.chosen is None or not then.chosen.layout.can_be_built or not _same(then.chosen, found.chosen):
        return
    ratio, run = pass_seconds(then) / pass_seconds(found), runs.of(packed, then)
    if ratio <= WORTH_NAMING and run.seconds <= WORTH_NAMING * runs.now.seconds:
        stated = tuple(_of_sequences(context, then.chosen.layout))
        alike = ", with about as many examples in a step" * bool(stated)
        why = " and ".join(_gains(context, found, then, loaded))
        effect = f"packed rows take {ratio:.2f}x the time{alike}{', as ' * bool(why)}{why}; {run.beside}"
        yield planned(Change((change, *stated)), effect, found.chosen, then.chosen, but=(but,))


def _gains(context: Context, found: Fit, then: Fit, loaded: LoadedRecipe) -> Iterator[str]:
    """What packing changes of a micro step: its padding, which a single row has not got, and how full it is."""
    assert found.chosen is not None and found.ledger is not None and then.chosen is not None and then.ledger is not None
    rows, bounds = found.chosen.layout.micro_batch, bounds_of(context, found.ledger, loaded)
    usual = bounds.typical.seq_len_tokens
    padded = bounds.padded_tokens(rows)
    share = 1 - usual / padded
    tokens, packed = rows * padded, then.chosen.layout.micro_batch * then.ledger.decisions["max_length"].value
    if share >= LITTLE_PADDING:
        yield f"{share:.0%} of the tokens of a batch are padding now"
    if packed >= tokens / WORTH_NAMING:
        yield f"a micro step has {packed:,} tokens instead of about {tokens:,}"


def _of_sequences(context: Context, packed: Layout) -> Iterator[tuple[str, int]]:
    """The batches that the recipe states in rows, in packed sequences."""
    for key, size in zip(_OF_ROWS, (packed.global_batch, packed.micro_batch), strict=True):
        if key in context.wishes and context.wishes[key].value != size:
            yield key, size


def _same(other: Candidate, chosen: Candidate | None) -> bool:
    return chosen is not None and other.layout.adapts is chosen.layout.adapts
