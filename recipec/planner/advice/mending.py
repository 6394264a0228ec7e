"""What is known to fail, or advised against, and the changes of the recipe that mend it: each is planned first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES, meant_by
from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.layout import Layout
from recipec.planner.advice.change import Change, Proposal
from recipec.planner.advice.changes import Changes, batch_for_all, other_strategies, unpinned
from recipec.planner.advice.keys import as_written, in_place, named_for, stages_of
from recipec.planner.advice.ways_out import Conditions, all_fitting, asking, change_of_all, fits_in, same, way
from recipec.planner.search.all_gpus import sequences_for_all, shared_by_all
from recipec.planner.search.context import Context, settle
from recipec.planner.search.fit import Fit, fit
from recipec.planner.search.known_bad import Refusal, advised_against, refusals_of
from recipec.planner.search.workload import work_of
from recipec.recipe import LoadedRecipe
from recipec.recipe.changed import agrees
from recipec.recipe.clashes import TABLES, either
from recipec.rules.combination import ModelTraits
from recipec.rules.core import Wish
from recipec.rules.intervals import divided
from recipec.units import counted, value_text

SHOWN = 3  # changes that are proposed for one finding
_EVALUATIONS, _SAVES = "train.eval_every", "train.save_every"
_BATCH, _PRECISION = "train.global_batch_size", "train.precision"
_TARGETS, _ATTENTION_ALONE = "train.lora.targets", "attention"

_FAMILY, _SHAPES = "train.adaptation", tuple(f"train.{table}" for table in TABLES)
_MODEL = "model.name"  # a recipe has to name one, so that no change removes it
_CAPACITY = ("capacity_factor", "eval_capacity_factor", "min_capacity", "balance_loss")

DECIDES = {  # recipe key -> what it decides of a combination
    **dict.fromkeys((_FAMILY, *_SHAPES), ("adaptation",)),
    "train.quantization": ("adaptation",),
    **{
        f"train.{name}": (name,)
        for name in ("precision", "strategy", "offload", "recompute_every", "activation_offload", "loop")
    },
    **{f"train.{name}": (name,) for name in ("optimizer", "attention", "packing", "compile", "fp8")},
    "train.sampling": ("asked_sampling",),
    **dict.fromkeys(("train.curriculum.by", "train.curriculum.column"), ("ordered",)),
    **dict.fromkeys(("train.ewc.strength", "train.ewc.rows"), ("elastic",)),
    **{f"train.experts.{name}": ("has_capacity",) for name in _CAPACITY},
    "train.micro_batch_size": ("micro_batch",),
    "train.global_batch_size": ("cuts_groups",),
    "train.tensor_parallel": ("tensor",),
    "train.context_parallel": ("context",),
    "train.expert_parallel": ("expert",),
    _TARGETS: ("lora_targets", "lora_experts"),
    "train.lora.dropout": ("lora_dropout",),
    "train.lora.variant": ("variant",),
    **dict.fromkeys(("train.save_every", "train.eval_every"), ("asked_save_every", "eval_every")),
    _MODEL: ModelTraits.__struct_fields__,
    "data.max_length": ("beyond_chunk", "scales_late", "beyond_positions"),
    "model.init_from": ("continues",),
    "model.new_tokens": ("new_tokens",),
    "alignment.precompute_reference": ("precomputes",),
    "alignment.generation.engine": ("generator",),
    "alignment.generation.server_gpus": ("served_whole", "served_fits"),
    "alignment.generation.engine_tensor_parallel": ("copy_whole", "copy_divides"),
    **dict.fromkeys(("alignment.environment", "alignment.tools"), ("acts",)),
}
_WIDEST = (_FAMILY, "train.quantization", "train.loop", "train.lora.variant")
_OF_LAYOUTS = ("strategy", "offload", "recompute_every", "activation_offload", "micro_batch", "tensor", "context")
_OF_LAYOUTS += ("expert", "copy_whole", "copy_divides")


def known_to_fail(
    loaded: LoadedRecipe, context: Context, others: Sequence[Context], bad: Sequence[Refusal], terms: Conditions
) -> Diagnostic:
    """Every layout that the recipe allows is known to fail (E0405): why, and what mends it."""
    label = Label(loaded.place("train"), "no supported combination with the values of the recipe")
    if not bad:
        return _without_it(loaded, context) or _nothing_left(loaded, context, others, label, terms)
    refusals = stated(loaded, context.stage.name, bad)
    each = {refusal.row.id: refusal for refusal in refusals}
    rows = [refusal.row for refusal in each.values()]
    keys = culprit_keys(loaded, context.stage.name, refusals)
    labels = tuple(Label(place, "part of the combination") for place in _places(loaded, context.stage.name, keys))
    instead = {id: refusal.instead for id, refusal in each.items()}
    named = (named_for(text, context.stage.name, stages_of(context), loaded) for text in instead.values())
    fixed = tuple(f"{in_place(text, loaded)} ({id})" for id, text in zip(instead, named, strict=True))
    help = tuple(_mending(context, others, keys, loaded, terms, refusals))
    help = help or tuple(_told_of_precision(context, others, loaded, terms, refusals))
    help = help or tuple(_told_of_groups(context, refusals))
    untried = () if help else (_NOT_PLANNED,)
    notes = (*_intervals(refusals), *untried, *(f"{row.why} ({row.id}: {row.citation})" for row in rows))
    return Diagnostic("E0405", rows[0].title, labels or (label,), help or fixed, notes)


_NOT_PLANNED = "recipec did not plan this fix, so the recipe may not fit with it"


def unrefused(context: Context, loaded: LoadedRecipe, found: Fit) -> tuple[Change, Context] | None:
    """A stage as it is where its layouts were tried, else with the smallest change that leaves it some to try; None
    where nothing that the recipe writes does. `found` is its fit."""
    if found.tried:
        return Change(), context
    refusals = stated(loaded, context.stage.name, found.bad) if found.bad else []
    keys = removable_keys(loaded, context.stage.name, refusals)
    for change, changed in (*_in_fp32(context, refusals), *single_changes(context, keys), *unpinned(context, keys)):
        built = replace(changed, built=True)
        if any(each.layout.can_be_built for each in fit(built, loaded).tried):
            return as_written(change, context), built
    return None


def _in_fp32(context: Context, refusals: Sequence[Refusal]) -> Changes:
    """The stage in fp32, where half precision is what is refused."""
    wish = context.wishes.get(_PRECISION)
    if (wish is None or wish.value != "fp32") and any(refusal.mended_by("precision") for refusal in refusals):
        wishes = {**context.wishes, _PRECISION: Wish("fp32", "a range that is wide enough")}
        yield Change(((_PRECISION, "fp32"),)), replace(context, wishes=wishes)


def _told_of_precision(
    context: Context, others: Sequence[Context], loaded: LoadedRecipe, terms: Conditions, refusals: Sequence[Refusal]
) -> Iterator[str]:
    """fp32, where every stage fits and can be built in it."""
    for change, changed in _in_fp32(context, refusals):
        wished = [asking(change, other) for other in others]
        yield from _mended(change, [context, *others], [changed, *wished], loaded, terms)


def stated(loaded: LoadedRecipe, stage: str, bad: Sequence[Refusal]) -> list[Refusal]:
    """What is wrong with the recipe itself: not with layouts that it does not ask for, while others would do."""
    free = [name for name in _OF_LAYOUTS if not _writes(loaded, stage, name)]
    whole = [other for refusal in bad for other in refusals_of(refusal)]
    kept = [refusal for refusal in whole if not any(refusal.mended_by(name) for name in free)]
    return kept or [refusal for refusal in bad if not refusal.layout.offloads] or list(bad)


def _writes(loaded: LoadedRecipe, stage: str, name: str) -> bool:
    """Whether the recipe states a part of the layout."""
    return any(loaded.is_set(*loaded.written_for(stage, key)) for key, names in DECIDES.items() if name in names)


def culprit_keys(loaded: LoadedRecipe, stage: str, refusals: Sequence[Refusal]) -> list[str]:
    """The keys of the recipe without which something refused would pass."""
    return [
        key
        for key, names in DECIDES.items()
        if loaded.is_set(*loaded.written_for(stage, key)) and any(refusal.mended_by(*names) for refusal in refusals)
    ]


def removable_keys(loaded: LoadedRecipe, stage: str, refusals: Sequence[Refusal]) -> list[str]:
    """Those of them that a recipe may leave out."""
    return [key for key in culprit_keys(loaded, stage, refusals) if key != _MODEL]


def culprits(loaded: LoadedRecipe, stage: str, refusals: Sequence[Refusal]) -> list[Place]:
    """Where the recipe writes them."""
    return _places(loaded, stage, culprit_keys(loaded, stage, refusals))


def _places(loaded: LoadedRecipe, stage: str, keys: Sequence[str]) -> list[Place]:
    """Where the recipe writes keys; of a table and what is in it, the latter alone."""
    found = list(dict.fromkeys(loaded.written_for(stage, key) for key in keys))
    inner = [path for path in found if not any(other[: len(path)] == path != other for other in found)]
    return [loaded.place(*path) for path in inner]


def _intervals(refusals: Sequence[Refusal]) -> Iterator[str]:
    """The two intervals of which one is no multiple of the other."""
    for each in (refusal.combination for refusal in refusals if refusal.mended_by(*DECIDES[_SAVES])):
        saved, evaluated = f"{each.asked_save_every:g}", f"{each.eval_every:g}"
        yield f"checkpoints are every {saved} of the steps, evaluations every {evaluated} of them"
        return


def _finer(context: Context, refusals: Sequence[Refusal]) -> Changes:
    """Evaluate so often that a checkpoint can be written when the recipe asks for one."""
    asking = refusals if _SAVES in context.wishes else ()
    for each in (refusal.combination for refusal in asking if refusal.mended_by(*DECIDES[_SAVES])):
        often = divided(each.asked_save_every, each.eval_every)
        wishes = {**context.wishes, _EVALUATIONS: Wish(often, "a divisor of save_every")}
        yield Change(((_EVALUATIONS, often),)), replace(context, wishes=wishes)
        return


def _in_whole_groups(context: Context, refusals: Sequence[Refusal]) -> Changes:
    """The nearest global batch of whole groups of answers that all GPUs share, in place of one that cuts them."""
    wish = context.wishes.get(_BATCH)
    if wish is None or not any(refusal.mended_by(*DECIDES[_BATCH]) for refusal in refusals):
        return
    unit = shared_by_all(context, settle(context, METHODS[context.stage.name].adaptations[0], ""))
    size = max(1, round(wish.value / unit)) * unit
    yield (
        Change(((_BATCH, size),)),
        replace(context, wishes={**context.wishes, _BATCH: Wish(size, "whole groups of answers")}),
    )


def _told_of_groups(context: Context, refusals: Sequence[Refusal]) -> Iterator[str]:
    """The same where it does not fit either."""
    for change, _ in _in_whole_groups(context, refusals):
        yield f"{as_written(change, context).told}: all GPUs share so many answers, in whole groups"


def _mending(
    context: Context,
    others: Sequence[Context],
    keys: Sequence[str],
    loaded: LoadedRecipe,
    terms: Conditions,
    refusals: Sequence[Refusal] = (),
) -> Iterator[str]:
    """The changes with which every stage fits and can be built, each as a line; all keys only where no single one is
    enough."""
    keys, given = [key for key in keys if key != _MODEL], [context, *others]
    found = 0
    saves = refusals if _SAVES in keys else ()
    for kind in (
        lambda each: chain(_finer(each, saves), _in_whole_groups(each, refusals), single_changes(each, keys)),
        lambda each: unpinned(each, keys),
    ):
        for change, changed in kind(context):
            wider = found and len(change.removes) > 1  # with a key that is enough by itself
            if found == SHOWN or wider:
                continue
            contexts = [changed, *(same(kind, change, other) for other in others)]
            for line in _mended(change, given, contexts, loaded, terms):
                found += 1
                yield line
        if found:
            return


def _mended(
    change: Change, given: Sequence[Context], changed: Sequence[Context], loaded: LoadedRecipe, terms: Conditions
) -> Iterator[str]:
    """A line for a change with which every stage fits and can be built, with the whole run of all of them."""
    written = change_of_all(change, given, changed)
    pairs = all_fitting(changed, loaded) if agrees(loaded, written.sets, written.removes) else ()
    if pairs:
        yield way(written, pairs, loaded, (), terms, given[0], _decided_then(change, pairs[0][1])).proposal.told


def _decided_then(change: Change, then: Fit) -> str:
    """What recipec decides in the place of a key that is removed."""
    assert then.ledger is not None
    taken = [value_text(other.value) for other in then.ledger.decisions.values() if (other.key,) == change.removes]
    return f", which is then {taken[0]}" if taken else ""


def _told(change: Change, context: Context, then: Fit, now: Layout) -> str:
    """A change of a stage that has a plan, and what it gives."""
    assert then.chosen is not None
    fits, only = fits_in(then.chosen), _decided_then(change, then)
    return Proposal(as_written(change, context), fits, now, then.chosen.layout, only).told


def single_changes(context: Context, keys: Sequence[str]) -> Changes:
    """Let recipec decide one of these keys, what is trained last; or adapt attention alone."""
    named = dict.fromkeys(_FAMILY if key in _SHAPES else key for key in keys)  # a table asks for its adaptation
    for key in sorted(named, key=_WIDEST.__contains__):
        if key == _EVALUATIONS and _SAVES in context.wishes:
            continue  # the rule of saves goes by evaluations, not the other way
        yield from unpinned(context, (key,))
    narrows = (_TARGETS, "train.lora.variant", "train.lora.dropout")
    if "train.lora.expert_rank" not in context.wishes and any(key in keys for key in narrows):
        narrow = {**context.wishes, _TARGETS: Wish(_ATTENTION_ALONE, "fewer targets")}
        yield Change(((_TARGETS, _ATTENTION_ALONE),)), replace(context, wishes=narrow)


def avoiding(context: Context, found: Fit, loaded: LoadedRecipe) -> dict[str, tuple[str, ...]]:
    """Of each row that advises against the plan: the changes of one key that avoid it, and fit (for W0504)."""
    assert found.chosen is not None and found.ledger is not None
    stage, ways = context.stage.name, {}
    for advised in _against(context, found):
        keys = [key for key in removable_keys(loaded, stage, [advised]) if key in context.wishes]
        changes = single_changes(context, keys) if keys else _of_another_strategy(context, advised)
        planned = [(change, changed, fit(changed, loaded)) for change, changed in changes]
        lines = [
            _told(change, context, other, found.chosen.layout)
            for change, *then, other in planned
            if _avoids(*then, other, advised)
        ]
        if planned:
            ways[advised.row.id] = tuple(lines[:SHOWN]) or (_NO_WAY,)
    return ways


def _of_another_strategy(context: Context, advised: Refusal) -> Changes:
    """Each strategy that is not advised against, where the strategy is what recipec decided."""
    if advised.mended_by("strategy"):
        yield from other_strategies(context)


_NO_WAY = "no change of one key that fits avoids it"


def _against(context: Context, found: Fit) -> list[Refusal]:
    """What advises against a plan."""
    assert found.chosen is not None and found.ledger is not None
    work = work_of(found.ledger, context.facts)
    return advised_against(found.chosen.layout, found.ledger.decisions, context.facts.model.architecture, work)


def _avoids(context: Context, found: Fit, advised: Refusal) -> bool:
    """Whether another plan can be built and is not advised against for the same reason."""
    if found.chosen is None or not found.chosen.layout.can_be_built:
        return False
    return all(other.row.id != advised.row.id for other in _against(context, found))


def _offloading() -> str:
    """What can hold states in host memory."""
    return f"offload needs {either([row.name for row in STRATEGIES.values() if row.offloads], '')}"


def _without_it(loaded: LoadedRecipe, context: Context) -> Diagnostic | None:
    """That the stage's method does not have the adaptation that the recipe states for all stages."""
    stage, asked = context.stage.name, context.wishes.get(_FAMILY)
    row = METHODS[stage]
    if asked is None or any(one.name in row.adaptations for one in meant_by(asked.value)):
        return None
    written = asked.implied_by.split(".") if asked.implied_by else loaded.written_for(stage, _FAMILY)
    label = Label(loaded.place(*written), row.adaptations_because)
    used = ADAPTATIONS[row.adaptations[0]].family
    help = f'set `train.adaptation = "{used}"` for all stages, or train each stage in a recipe of its own'
    title = f"stage {stage} does not have the adaptation {asked.value}"
    return Diagnostic("E0405", title, (label,), (in_place(help, loaded),))


def _nothing_left(
    loaded: LoadedRecipe, context: Context, others: Sequence[Context], label: Label, terms: Conditions
) -> Diagnostic:
    """No arrangement of the devices is what the recipe fixes: name the keys that may be the reason."""
    names = ("strategy", "offload", "activation_offload", "recompute_every", "micro_batch_size", "global_batch_size")
    names += ("tensor_parallel", "context_parallel", "expert_parallel")
    keys = [key for key in (f"train.{name}" for name in names) if key in context.wishes]
    short = any(fit(changed, loaded).tried for _, changed in batch_for_all(context))
    if not short:
        keys = [key for key in keys if key != _BATCH]
    paths = [loaded.written_for(context.stage.name, key) for key in keys]
    labels = tuple(Label(loaded.place(*path), "set in the recipe") for path in paths) or (label,)
    cause = _too_few_examples(context) if short else _sizes(context, keys)
    fixed = f"remove {either(['.'.join(path) for path in paths] or ['train.strategy'], '`')}"
    larger = _with_batch_for_all(context, others, loaded, terms)
    help = (*larger, *_mending(context, others, keys, loaded, terms)) or (fixed,)
    return Diagnostic("E0405", "no layout of the GPUs agrees with the recipe", labels, help, (cause,))


def _with_batch_for_all(
    context: Context, others: Sequence[Context], loaded: LoadedRecipe, terms: Conditions
) -> Iterator[str]:
    """The larger global batch, where a batch with fewer examples than all GPUs need is what leaves no layout."""
    for change, changed in batch_for_all(context):
        moved = [same(batch_for_all, change, other) for other in others]
        yield from _mended(change, [context, *others], [changed, *moved], loaded, terms)


def _too_few_examples(context: Context) -> str:
    """That the global batch is too small for the GPUs."""
    row, gpus = METHODS[context.stage.name], context.facts.machines.gpus
    batch = settle(context, row.adaptations[0], "").decisions["global_batch_size"].value
    needed = f"all {gpus} GPUs together need {sequences_for_all(context):,}"
    return f"the global batch has {counted(batch, row.example)}, and {needed}: a micro batch for each"


def _sizes(context: Context, keys: Sequence[str]) -> str:
    """What the sizes of a layout must keep to."""
    alone = "train.offload" in keys and context.facts.machines.gpus == 1
    return f"{_offloading()}, and at least two GPUs" if alone else "parallel sizes must divide the number of GPUs"
