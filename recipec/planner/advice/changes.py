"""Single changes of a recipe, the smallest first: what a stage would be planned with after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from recipec.axes import METHODS, STRATEGIES, meant_by
from recipec.axes.answering import ENGINE, ENGINE_TENSOR_PARALLEL, SERVER_GPUS
from recipec.axes.generators import GENERATORS, Generator
from recipec.axes.tasks import AUTO
from recipec.catalog.gpus import Gpu, gpu, gpu_names
from recipec.catalog.machines import machine
from recipec.catalog.models import Model, models
from recipec.catalog.prices import price
from recipec.facts import Facts, rows_read_by, unmeasured, with_hardware
from recipec.facts.data import DataFacts, read_up_to
from recipec.facts.model import can_begin, facts_of
from recipec.facts.price import price_of
from recipec.facts.sizes import GENERAL_TOKENS, Weighted, longer_share
from recipec.layout import Machines
from recipec.planner.advice.change import Change, setting
from recipec.planner.search.all_gpus import sequences_for_all, shared_by_all
from recipec.planner.search.context import EIGHT_BIT, Context, settle
from recipec.recipe.adapters import LIST
from recipec.recipe.clashes import TABLES
from recipec.recipe.schema import Policy
from recipec.recipe.schema_data import GENERAL
from recipec.rules.core import Decision, Wish
from recipec.rules.data import dropped_rows_limit
from recipec.rules.model import OPEN_LICENCES

Changes = Iterator[tuple[Change, Context]]  # what a user would write, and the context it gives

PINS = (  # what changes least of the result first
    *("train.micro_batch_size", "train.activation_checkpointing", "train.recompute_every"),
    *("alignment.precompute_reference", "train.activation_offload", "train.offload", "train.strategy"),
    *("alignment.generation.engine_tensor_parallel", "alignment.generation.server_gpus"),
    *("train.tensor_parallel", "train.context_parallel", "train.expert_parallel"),
    *("alignment.generation.engine", "train.attention", "train.packing", "train.precision"),
    *("train.optimizer", "train.quantization", "train.adaptation"),
)
_ENGINE, _STRATEGY, _BATCH = f"alignment.{ENGINE.key}", "train.strategy", "train.global_batch_size"
SHORTEST_TOKENS = 256
MOST_LONGER = dropped_rows_limit().value  # of the rows, than a shorter max_length: prepare_data.py stops at more
GPUS_OF_A_NODE = (2, 4, 8)
NODES = (2, 3, 4, 6, 8, 12, 16, 32, 64)


def unpinned(context: Context, keys: Sequence[str] = PINS) -> Changes:
    """Let recipec decide one of the values that the recipe fixes, then all of them."""
    for base in _bases_below(context) if _BASE in keys else []:  # no adapter says how its base is stored
        stored = {**context.wishes, _BASE: Wish(base, "a quantized base")}
        yield setting(train__quantization=base), replace(context, wishes=stored)
    held = [_FAMILY] if context.facts.loaded.mixes else []  # [fusion] decides it, whatever else the recipe says
    held += [_BASE] if _is_of_adapter(context) else []
    pinned = [key for key in keys if key in context.wishes and key not in held and _says(key, context.wishes)]
    for freed in [*([key] for key in pinned), *([pinned] if len(pinned) > 1 else [])]:
        yield _freed(context, freed)


def _freed(context: Context, freed: Sequence[str]) -> tuple[Change, Context]:
    """What a recipe no longer writes, and the stage where it does not fix these values."""
    removed = list(dict.fromkeys(name for key in freed for name in _says(key, context.wishes)))
    also = [key for written in freed for key in _fixed_with(written, context.wishes)]
    free = {
        key: wish
        for key, wish in context.wishes.items()
        if key not in (*freed, *also, *removed) and not any(_in(key, table) for table in removed)
    }
    changed = replace(context, wishes=free)
    kept = ()
    if _BASE in freed and _is_of_word(context):
        removed.remove(_BASE)
        kept = ((_FAMILY, free[_FAMILY].value),) if _FAMILY in free else ()
    return Change(kept, tuple(removed)), _without_general(changed) if _GENERAL in removed else changed


def _without_general(context: Context) -> Context:
    """The stage with what is known of its rows, where the recipe no longer names general ones."""
    data = {section: _alone(known) for section, known in context.facts.data.items()}
    return _with_facts(context, replace(context.facts, data=data))


def _alone(data: DataFacts) -> DataFacts:
    of_general = (f"has_{GENERAL}_file", f"{GENERAL}_rows", GENERAL_TOKENS)
    kept = {id: known for id, known in data.decisions.items() if id not in of_general}
    return replace(data, decisions=kept, held_out={part: of for part, of in data.held_out.items() if part != GENERAL})


_BASE, _FAMILY = "train.quantization", "train.adaptation"
_PRICE = "budget.price_per_gpu_hour"
_GENERAL = f"data.{GENERAL}"
_MEASURED = ("train.ewc", _GENERAL)  # the rows are there for the table, unless they are replayed as well
_TOGETHER = {"train.ewc.strength": _MEASURED, "train.ewc.rows": _MEASURED}  # what a key cannot be removed without


def _bases_below(context: Context) -> list[str]:
    """The quantized bases that a recipe can state below the adapter that it goes on from, where it states none."""
    family = context.wishes[_FAMILY].value if _is_of_adapter(context) else ""
    return [row.base for row in meant_by(family) if row.quantized and row.unasked]


def _is_of_adapter(context: Context) -> bool:
    """Whether the adapter that training goes on from decides the base, and no key of the recipe."""
    adapter, wish = context.facts.adapter, context.wishes.get(_BASE)
    return adapter is not None and wish is not None and wish.where.startswith(f"{adapter.path}/")


def _says(key: str, wishes: Mapping[str, Wish]) -> list[str]:
    """What a recipe writes for a key: the key, or what goes with it, or the table that implies it, or both; nothing it
    can leave out of adapters that are to be combined."""
    if key == _ENGINE:
        return [key, *_of_other_engines(GENERATORS[ENGINE.value], wishes)]
    if key != _FAMILY:
        together = _TOGETHER.get(key, (key,))
        return [name for name in together if name != _GENERAL or "data.replay" not in wishes]
    implied = wishes[key].implied_by.rpartition(".")[-1]
    if implied == LIST:
        return []
    shaped = [f"train.{name}" for name in TABLES if name == implied or any(_in(key, f"train.{name}") for key in wishes)]
    return shaped if implied else [key, *shaped]


def _of_other_engines(row: Generator, wishes: Mapping[str, Wish]) -> tuple[str, ...]:
    """The keys of a recipe that its engine reads, and this one does not."""
    unread = (SERVER_GPUS, not row.beside), (ENGINE_TENSOR_PARALLEL, len(row.splits) == 1)
    return tuple(key for key, other in ((f"alignment.{own.key}", of) for own, of in unread) if other and key in wishes)


def _fixed_with(key: str, wishes: Mapping[str, Wish]) -> list[str]:
    """What the same word of a recipe fixes: "qlora" names an adaptation and its base."""
    return [_BASE] if key == _FAMILY and _BASE in wishes and wishes[_BASE].where == wishes[key].where else []


def _is_of_word(context: Context) -> bool:
    """Whether the recipe fixes the base with such a word, and by no key of its own."""
    loaded = context.facts.loaded
    written = loaded.is_set(*loaded.written_for(context.stage.name, _BASE))
    return _FAMILY in context.wishes and bool(_fixed_with(_FAMILY, context.wishes)) and not written


def _in(key: str, table: str) -> bool:
    return key.startswith(f"{table}.")


def more_gpus(context: Context) -> Changes:
    """A fuller node."""
    now = context.facts.machines
    for count in GPUS_OF_A_NODE:
        if count > now.gpus_per_node:
            more = Machines(now.nodes, count)
            change = replace(setting(hardware__gpus_per_node=count), removes=_no_longer_measured(context, more))
            yield change, on_machines(context, more)


def more_nodes(context: Context) -> Changes:
    """More nodes of eight GPUs."""
    now, most = context.facts.machines, GPUS_OF_A_NODE[-1]
    for count in NODES:
        if count > now.nodes:
            fuller = {"hardware__gpus_per_node": most} if now.gpus_per_node < most else {}
            more = Machines(count, most)
            change = replace(setting(**fuller, hardware__nodes=count), removes=_no_longer_measured(context, more))
            yield change, on_machines(context, more)


def on_machines(context: Context, machines: Machines) -> Context:
    """The stage on other machines of the same kind."""
    return replace(context, facts=with_hardware(context.facts, context.facts.gpu, machines))


def _no_longer_measured(context: Context, machines: Machines) -> tuple[str, ...]:
    """The key of a file of measurements that is not of such nodes: it counts the GPUs of one."""
    facts = context.facts
    other = facts.gpu.measured is not None and machines.gpus_per_node != facts.machines.gpus_per_node
    return ("hardware.measured",) if other else ()


def larger_gpu(context: Context) -> Changes:
    """GPUs of the same maker with more memory, one of each size; beside a CPU of every size and maker.

    Only those that the surveys found on offer, as machines or at a price.
    """
    facts = context.facts
    on_cpu = facts.gpu.kind == "cpu"
    hardware = facts.loaded.recipe.hardware
    of_this = {"hardware.vram_gib": hardware.vram_gib, "hardware.measured": facts.gpu.measured}
    said = tuple(key for key, stated in of_this.items() if stated is not None)
    link = hardware.gpu_link or AUTO
    least = 0.0 if on_cpu else unmeasured(facts).memory_gib
    offered = (gpu(name) for name in gpu_names() if price(name) or machine(name, 1).host_memory_gib_per_gpu)
    known = [card for card in offered if card is not None and (on_cpu or card.vendor == facts.gpu.vendor)]
    larger = {(card.memory_gib, card.bf16): card for card in reversed(known) if card.memory_gib > least}
    for card in sorted(larger.values(), key=lambda card: card.memory_gib):
        then = with_hardware(facts, card, facts.machines)
        said_of_price, cost = _price_of_other(facts, card)
        priced = {**then.decisions, cost.id: cost}
        other_link = ("hardware.gpu_link",) * (link != AUTO and link not in card.links)
        sets = (("hardware.gpu", card.name), *said_of_price.sets)
        change = Change(sets, (*said, *other_link, *said_of_price.removes))
        yield change, replace(context, facts=replace(then, decisions=priced))


def _price_of_other(facts: Facts, card: Gpu) -> tuple[Change, Decision]:
    """What a recipe writes of the price of another GPU, as a stated one is that of its own, and the price.

    A price that may be inherited cannot be removed: it is replaced, as far as one is known.
    """
    known = facts.prices.get(card.name) or price_of(card)
    if facts.loaded.recipe.budget.price_per_gpu_hour is None:
        return Change(), known
    if len(facts.loaded.files) == 1:
        return Change(removes=(_PRICE,)), known
    if known.value is None:
        return Change(), facts.decisions[known.id]
    return Change(((_PRICE, known.value),)), known


def other_engines(context: Context) -> Changes:
    """Another engine that writes answers with a copy of the weights, unless the recipe names one without; GPUs that
    only write are on the node that trains, which is then the only one (BAD-168)."""
    wish, machines = context.wishes.get(_ENGINE), context.facts.machines
    named = GENERATORS.get(wish.value) if wish is not None else None
    if (named is not None and not named.own_copy) or ENGINE not in METHODS[context.stage.name].own:
        return
    for row in GENERATORS.values():
        if row is named or not row.own_copy or (row.beside and machines.gpus_per_node == 1):
            continue
        alone = row.beside and machines.nodes > 1
        unread = _of_other_engines(row, context.wishes)
        wishes = {key: wish for key, wish in context.wishes.items() if key not in unread}
        wishes |= {_ENGINE: Wish(row.name, "another engine")}
        change = Change(((_ENGINE, row.name), *[("hardware.nodes", 1)] * alone), removes=unread)
        changed = on_machines(context, Machines(1, machines.gpus_per_node)) if alone else context
        yield change, replace(changed, wishes=wishes)


def other_strategies(context: Context) -> Changes:
    """Each strategy, where the recipe names none."""
    for name in STRATEGIES if _STRATEGY not in context.wishes else ():
        wishes = {**context.wishes, _STRATEGY: Wish(name, "another strategy")}
        yield Change(((_STRATEGY, name),)), replace(context, wishes=wishes)


def smaller_states(context: Context) -> Changes:
    """AdamW with 8-bit states, where the recipe leaves the optimizer open."""
    if "train.optimizer" not in context.wishes:
        small = {**context.wishes, "train.optimizer": Wish(EIGHT_BIT, "8-bit optimizer states")}
        yield setting(train__optimizer=EIGHT_BIT), replace(context, wishes=small)


def batch_for_all(context: Context) -> Changes:
    """A global batch with a micro batch for every GPU, where it has fewer examples."""
    adaptation, least = METHODS[context.stage.name].adaptations[0], sequences_for_all(context)
    if settle(context, adaptation, "").decisions["global_batch_size"].value < least:
        larger = {**context.wishes, "train.global_batch_size": Wish(least, "a micro batch for every GPU")}
        yield setting(train__global_batch_size=least), replace(context, wishes=larger)


def smaller_batch(context: Context) -> Changes:
    """Half the global batch, again and again, as long as the rules accept it: answers of a step are written together,
    and rows that are only learned are accumulated at no more memory. Batches that all GPUs share come first."""
    method = METHODS[context.stage.name]
    settled = settle(context, method.adaptations[0], "")
    decided, unit = settled.decisions["global_batch_size"], shared_by_all(context, settled)
    least = decided.accepts[0] if decided.accepts else decided.value
    halves = [decided.value >> times for times in range(1, decided.value.bit_length()) if method.generates]
    sizes = dict.fromkeys((*(size - size % unit for size in halves), *halves))
    for size in (size for size in sizes if size >= least):
        smaller = {**context.wishes, _BATCH: Wish(size, "fewer answers at once")}
        yield Change(((_BATCH, size),)), replace(context, wishes=smaller)


def shorter(context: Context) -> Changes:
    """A shorter length, the longest first."""
    for length in _shorter_lengths(context):
        yield setting(data__max_length=length), cut_to(context, length)


def cut_to(context: Context, length: int) -> Context:
    """The stage with another max_length."""
    cut = {**context.wishes, "data.max_length": Wish(length, "a shorter max_length")}
    return replace(context, wishes=cut, data=read_up_to(context.data, length))


def share_longer(context: Context, length: int) -> float:
    """The share of the rows of a stage that are longer, as far as their lengths are known."""
    known = measured_lengths(context)
    return longer_share(known, length) if known else 0


def _shorter_lengths(context: Context) -> list[int]:
    """Half the length, again and again, as long as few rows are longer; where that is not known, to twice the mean.

    Of lengths that keep the same rows the shortest, unless the recipe says how long rows may be.
    """
    method = METHODS[context.stage.name]
    given, known = settle(context, method.adaptations[0], "").decisions, measured_lengths(context)
    least = SHORTEST_TOKENS
    if not known and not method.of_text:  # text is cut into blocks of any length, other rows would be lost
        least = max(least, given["tokens_p99"].value or 2 * (given["tokens_per_example"].value or 0))
    halves = [given["max_length"].value >> times for times in range(1, given["max_length"].value.bit_length())]
    long_enough = [length for length in halves if length >= least]
    if not known:
        return long_enough
    lost = {length: longer_share(known, length) for length in long_enough}
    kept = [length for length in long_enough if lost[length] <= MOST_LONGER]
    return kept if "data.max_length" in context.wishes else [*{lost[length]: length for length in kept}.values()]


def measured_lengths(context: Context) -> Weighted:
    """The lengths of the rows of a stage; none of text, which is cut into blocks, beside general rows, or where every
    answer of a conversation becomes a row, since those are of whole conversations."""
    known = context.data.decisions
    others = METHODS[context.stage.name].of_text or GENERAL_TOKENS in known or "answer_share" in known
    return () if others else context.data.lengths


def smaller_model(context: Context) -> Changes:
    """The next smaller models of the same family."""
    model = context.facts.model
    family = [other for other in _models_like(context) if other.family == model.family]
    for other in sorted(family, key=lambda other: -other.architecture.params):
        if other.architecture.params < model.architecture.params:
            yield _with_model(context, other)


def halved_models(context: Context) -> Changes:
    """Of any family, each with at most half the parameters of the one before, down to the smallest.

    Those that read as long rows, for every purpose, with an open license.
    """
    model, length = context.facts.model, context.wishes.get("data.max_length")
    known = [other for other in _models_like(context) if _usual(other)]
    known = [other for other in known if length is None or other.architecture.max_position >= length.value]
    least = model.architecture.params
    for other in sorted(known, key=lambda other: -other.architecture.params):
        if 2 * other.architecture.params <= least:
            least = other.architecture.params
            yield _with_model(context, other)


def _models_like(context: Context) -> list[Model]:
    """The models of the catalog of the same kind that the recipe can begin with."""
    facts = context.facts
    return [other for other in models() if other.kind == facts.model.kind and can_begin(facts.loaded, other)]


def _usual(other: Model) -> bool:
    """Whether a model may be named without a word on its license or what it is made for."""
    return not other.purpose and (other.licence or "").casefold() in _OPEN


_OPEN = {licence.casefold() for licence in OPEN_LICENCES}


def _with_model(context: Context, other: Model) -> tuple[Change, Context]:
    facts = context.facts
    before, fresh = ({fact.id: fact for fact in facts_of(model)} for model in (facts.model, other))
    given = {id: fact for id, fact in facts.decisions.items() if id not in before} | fresh
    return setting(model__name=other.name), _with_facts(context, replace(facts, model=other, decisions=given))


def _with_facts(context: Context, facts: Facts) -> Context:
    """The stage with other facts, and with its rows as its trainer then reads them."""
    return replace(context, facts=facts, data=rows_read_by(METHODS[context.stage.name], facts))


def within(context: Context, policy: Policy) -> bool:
    """Whether a changed recipe keeps to what a shared one allows; costs show only in a plan."""
    model, gpus = context.facts.model, context.facts.machines.gpus
    named = policy.models is None or any(fnmatchcase(model.name, pattern) for pattern in policy.models)
    return named and (policy.max_gpus is None or gpus <= policy.max_gpus)
