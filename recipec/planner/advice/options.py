"""What a recipe may also choose beside a plan that fits, each timed: more that is trained, a quantized base,
8-bit states, packed rows, another engine of generation, fewer GPUs that write, more answers together, fewer GPUs,
a larger micro batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.layout import Layout
from recipec.planner.advice.begins_anew import with_checkpoints
from recipec.planner.advice.change import Change, Proposal
from recipec.planner.advice.faster_layout import faster_layout
from recipec.planner.advice.fewer_gpus import fewer_gpus
from recipec.planner.advice.fewer_servers import fewer_servers
from recipec.planner.advice.host_memory import with_host_memory
from recipec.planner.advice.keys import as_written
from recipec.planner.advice.larger_batch import larger_batch
from recipec.planner.advice.next_better import next_better, on_present_gpus
from recipec.planner.advice.other_base import quantized_base
from recipec.planner.advice.other_engines import other_engine
from recipec.planner.advice.packed_rows import packed_rows
from recipec.planner.advice.smaller_states import in_8_bits
from recipec.planner.advice.stated_values import without_stated
from recipec.planner.advice.ways_out import holds_for
from recipec.planner.advice.whole_runs import WholeRuns
from recipec.planner.advice.written_together import more_answers, older_answers
from recipec.planner.plan import StagePlan
from recipec.planner.search.context import Context
from recipec.planner.search.fit import Fit
from recipec.recipe import LoadedRecipe


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
        *without_stated(context, found, loaded, runs),
        *on_present_gpus(context, found, loaded, runs),
        *quantized_base(context, found, loaded, runs),
        *in_8_bits(context, found, loaded, runs),
        *packed_rows(context, found, loaded, runs),
        *with_host_memory(context, found, loaded, runs),
        *faster_layout(context, found, loaded, runs),
        *other_engine(context, found, loaded, runs),
        *fewer_servers(context, found, loaded, runs),
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
