"""Look up the model and the hardware and look at the data that a recipe names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from recipec.axes import SECTIONS, Method
from recipec.axes.method import ENVIRONMENT, REWARDS
from recipec.catalog.gpus import Gpu
from recipec.catalog.models import Model
from recipec.catalog.templates import Template
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.acting import Acting, against_episodes, look_up_acting
from recipec.facts.adapter import StartingAdapter, look_up_adapter
from recipec.facts.cautions import not_compared
from recipec.facts.consistency import against_data, against_model, of_what_runs
from recipec.facts.conversations import against_conversations
from recipec.facts.converting import SKIP
from recipec.facts.data import DataFacts, data_facts, marks_answers, read_by
from recipec.facts.fact import known, stated
from recipec.facts.families import unknown_wishes
from recipec.facts.gpu_link import check_link
from recipec.facts.hardware import hardware_facts, look_up_gpu, on_machines_of, without_effect
from recipec.facts.held_out import with_held_out
from recipec.facts.measured import measured_gpu
from recipec.facts.model import look_up_model, model_facts
from recipec.facts.new_tokens import look_up_tokens, with_token_facts, with_tokens
from recipec.facts.node import unknown_network
from recipec.facts.others import OtherModel, against_others, look_up_others
from recipec.facts.overlap import learned_and_held_out, named_twice
from recipec.facts.price import own_prices, price_fact
from recipec.facts.reward_imports import against_stack
from recipec.facts.reward_texts import found_within
from recipec.facts.rewards import Rewards, against_rows, look_up_rewards
from recipec.facts.sources import sources_of
from recipec.facts.template import against_template, template_of, template_text
from recipec.facts.tool_templates import against_tool_template
from recipec.facts.turn_end import turn_end_facts
from recipec.facts.unread import against_unread
from recipec.facts.unread_keys import unread_keys
from recipec.layout import Machines
from recipec.recipe import LoadedRecipe
from recipec.recipe.load import Draft
from recipec.recipe.schema import AUTO
from recipec.recipe.schema_data import DATA_SOURCES
from recipec.rules.core import Decision


class Given(Struct, frozen=True):
    """Everything that is given without the model, and the model that the recipe names; None for `auto`."""

    model: Model | None
    gpu: Gpu
    machines: Machines
    goal: tuple[Decision, ...]
    hardware: tuple[Decision, ...]
    data: Mapping[str, DataFacts]
    template_text: str | None
    others: Mapping[str, OtherModel]
    rewards: Rewards
    acting: Acting
    adapter: StartingAdapter | None
    new_tokens: tuple[str, ...]
    prices: Mapping[str, Decision]  # GPU -> what the recipe's own table says of an hour


class Facts(Struct, frozen=True):
    """Everything that is given, and the model."""

    loaded: LoadedRecipe  # that gives it
    model: Model
    gpu: Gpu
    machines: Machines
    decisions: Mapping[str, Decision]  # facts that hold for every stage
    data: Mapping[str, DataFacts]  # section of [data] -> what its sources hold
    template_text: str | None = None  # the chat template, where the recipe brings its own
    others: Mapping[str, OtherModel] = field(default_factory=dict)  # role -> a model beside the one that is trained
    rewards: Rewards = Rewards()  # what judges the answers that a model writes
    acting: Acting = Acting()  # the environment and the tools that they act with
    adapter: StartingAdapter | None = None  # that the first stage goes on from
    new_tokens: tuple[str, ...] = ()  # that the model's vocabulary gets
    prices: Mapping[str, Decision] = field(default_factory=dict)  # GPU -> what the recipe's own table says of an hour
    model_is_there: bool = False  # on the disk, when this begins: another task of the recipe has fetched it


def gather(loaded: LoadedRecipe, report: Report) -> Given | None:
    """What a recipe gives; None when something that it names is missing, unreadable or at odds with it.

    What only details are at odds with is reported, and keeps nothing from being planned.
    """
    details = Report()
    model, others = _models(loaded, report)
    named = look_up_gpu(loaded, report)
    gpu = measured_gpu(loaded, named, report) if named else None
    own, rewards = template_text(loaded, report), look_up_rewards(loaded, report)
    acting = look_up_acting(loaded, rewards, report)
    context = model.architecture.max_position if model else None
    data = _data(loaded, template_of(loaded, model), context, (rewards, acting), report, details)
    adapter = look_up_adapter(loaded, model, report)
    tokens = look_up_tokens(loaded, report)
    prices = own_prices(loaded, report)
    of_tools = against_tool_template(loaded, acting, model, own)
    for finding in (*against_stack(rewards, acting), *of_tools, *(_of_machines(loaded, gpu) if gpu else ())):
        report.add(finding)
    sound = gpu is not None and not report.has_errors
    for finding in (*details.diagnostics, *without_effect(loaded)):
        report.add(finding)
    if gpu is None or not sound:
        return None
    hardware = loaded.recipe.hardware
    machines = Machines(hardware.nodes or 1, hardware.gpus_per_node or 1)
    priced = [*hardware_facts(loaded, gpu, machines), price_fact(loaded, gpu, prices)]
    goal, judging = tuple(_goal(loaded)), (others, rewards, acting)
    return Given(model, gpu, machines, goal, tuple(priced), data, own, *judging, adapter, tokens, prices)


def _of_machines(loaded: LoadedRecipe, gpu: Gpu) -> Iterator[Diagnostic]:
    """What is wrong with the links that the recipe states, or leaves open."""
    yield from unknown_network(loaded, gpu)
    yield from check_link(loaded, gpu)


_NOT_THERE = ("E0301", "E0302", "E0303", "E0306")


def look_up_names(draft: Draft, report: Report) -> None:
    """Report the model, GPU and files that are not there, of a recipe that has other errors (E0301, E0302, E030x)."""
    own, loaded = Report(), draft.loaded
    if "model" not in draft.doubtful and loaded.recipe.model.name != AUTO:
        look_up_model(loaded, own)
    if "alignment" not in draft.doubtful:
        look_up_others(loaded, own)
    hardware = loaded.recipe.hardware
    if "hardware" not in draft.doubtful and (hardware.gpu is not None or hardware.vram_gib is not None):
        look_up_gpu(loaded, own)
    for part in DATA_SOURCES if "data" not in draft.doubtful else ():
        sources = getattr(loaded.recipe.data, part) if loaded.is_set("data", part) else ()
        if sources and all(source.path or source.hub for source in sources):
            sources_of(loaded, part, own)
    for finding in own.diagnostics:
        if finding.code in _NOT_THERE:
            report.add(finding)
    told = {label.place for finding in report.diagnostics for label in finding.labels}
    for finding in _of_what_runs(loaded) if draft.valid else ():
        if finding.labels[0].place not in told:
            report.add(finding)


def _of_what_runs(loaded: LoadedRecipe) -> Iterator[Diagnostic]:
    """What is said of stages that do not run, where all rows can be read: no other error is behind it."""
    own = Report()
    data = _data(loaded, None, None, (Rewards(), Acting()), own, own)
    if data and all(name in data for name in SECTIONS if loaded.is_set("data", name)):
        yield from of_what_runs(loaded, data)


def with_model(loaded: LoadedRecipe, given: Given, model: Model) -> Facts:
    """What is given, with `model` as the one to start from."""
    others = [other.model for other in given.others.values()]
    tokens, model = given.new_tokens, with_tokens(model, given.new_tokens)
    ends = turn_end_facts(loaded, model, given.template_text, tokens)
    of_model = with_token_facts(loaded, model_facts(loaded, model, others), tokens)
    facts = [*given.goal, *of_model, *ends, *given.hardware]
    decisions = {fact.id: fact for fact in facts}
    judging = (given.others, given.rewards, given.acting)
    rest = (given.data, given.template_text, *judging, given.adapter, tokens, given.prices)
    return Facts(loaded, model, given.gpu, given.machines, decisions, *rest)


def with_hardware(facts: Facts, gpu: Gpu, machines: Machines) -> Facts:
    """The same on other hardware, with all that is known of it; the price of an hour stays.

    What was measured of nodes with another number of GPUs is not known of these.
    """
    if machines.gpus_per_node != facts.machines.gpus_per_node and gpu is facts.gpu:
        gpu = unmeasured(facts)
    gpu, before = on_machines_of(facts.loaded, gpu, machines.gpus_per_node), _of_hardware(facts)
    others = {id: fact for id, fact in facts.decisions.items() if id not in before}
    now = replace(facts, gpu=gpu, machines=machines)
    return replace(now, decisions=others | _of_hardware(now))


def unmeasured(facts: Facts) -> Gpu:
    """The GPU without what a file of measurements says of it."""
    found = look_up_gpu(facts.loaded, Report()) if facts.gpu.measured else facts.gpu
    assert found is not None
    return found


def rows_read_by(method: Method, facts: Facts) -> DataFacts:
    """The rows of a stage, as its trainer reads them with the chat template of the model."""
    rows = facts.data[method.rows_in(facts.data)]
    return read_by(rows, method, marks_answers(facts.loaded, facts.decisions))


def _of_hardware(facts: Facts) -> dict[str, Decision]:
    return {fact.id: fact for fact in hardware_facts(facts.loaded, facts.gpu, facts.machines)}


def _models(loaded: LoadedRecipe, report: Report) -> tuple[Model | None, dict[str, OtherModel]]:
    """The models that the recipe names, checked against it and each other; of `auto` the wishes are checked."""
    model = None if loaded.recipe.model.name == AUTO else look_up_model(loaded, report)
    others = look_up_others(loaded, report)
    findings = unknown_wishes(loaded) if model is None else against_model(loaded, model.architecture)
    for finding in (
        *findings,
        *(against_template(loaded, model) if model else ()),
        *(against_others(loaded, model, others) if model else ()),
    ):
        report.add(finding)
    return model, others


# Not said where a reward asks for a column that no row has, which may be another name of one of these, and where the
# environment that would read columns cannot be used.
_UNREAD = "W0516"


def _data(
    loaded: LoadedRecipe,
    template: Template | None,
    context: int | None,
    own: tuple[Rewards, Acting],
    report: Report,
    details: Report,
) -> dict[str, DataFacts]:
    """The sections of the data that can be used, checked against the recipe when all of them can."""
    for finding in (*named_twice(loaded), *learned_and_held_out(loaded)):
        report.add(finding)
    rewards, acting = own
    sections = [name for name in SECTIONS if loaded.is_set("data", name)]
    looked: dict[str, DataFacts | None] = {}

    def handed(held: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*rewards.handed(held), *acting.handed(held))))

    for name in sections:
        pairs = looked.get(loaded.pairs_asked(name))
        if pairs is not None and pairs.shape.implicit_prompt:
            report.add(_no_prompt(loaded, name))
            looked[name] = None
            continue
        elsewhere = () if pairs is None else (*pairs.shape.columns.values(), *pairs.unread)
        looked[name] = data_facts(loaded, name, template, handed, report, elsewhere, context)
    known_rows = {name: facts for name, facts in looked.items() if facts is not None}
    data = with_held_out(loaded, known_rows, template, report)
    if data.keys() == looked.keys():
        shapes = [shape for facts in data.values() for shape in facts.shapes]
        held = [shape for facts in data.values() for part in facts.held_out.values() for shape in part.shapes]
        skips = loaded.recipe.data.incomplete == SKIP
        lacking = [*against_rows(rewards, data, skips=skips), *against_episodes(acting, data, skips=skips)]
        for finding in (*against_data(loaded, data), *lacking):
            report.add(finding)
        unread = against_unread(loaded, data)
        whole = acting.environment is not None or loaded.recipe.alignment.environment is None
        of_details = (
            unread if not lacking and whole else (finding for finding in unread if finding.code != _UNREAD),
            against_conversations(loaded, shapes, held),
            unread_keys(loaded),
            () if lacking else found_within(rewards, data, acts=acting.acts),
            not_compared(loaded, {section: facts.shape for section, facts in data.items()}),
        )
        for finding in chain(*of_details):
            details.add(finding)
    return data


_NO_LEVEL = "no level of KL control is asked for"


def _no_prompt(loaded: LoadedRecipe, section: str) -> Diagnostic:
    """Pairs whose answers begin with the same messages have no column that asks (E0201)."""
    label = Label(loaded.place("data", section), "pairs without a column `prompt`")
    help = f'for example {section} = "{SECTIONS[section].examples[0]}"; or give the pairs a column `prompt`'
    return Diagnostic("E0201", f"missing key `{section}` in [data]", (label,), (help,))


def _goal(loaded: LoadedRecipe) -> list[Decision]:
    goal, track, alignment = loaded.recipe.goal, loaded.recipe.track, loaded.recipe.alignment
    return [
        stated(loaded, "task", goal.task, "goal", "task"),
        stated(loaded, "priority", goal.priority, "goal", "priority", absent="no priority: balanced"),
        stated(loaded, "new_domain", bool(goal.new_domain), "goal", "new_domain"),
        stated(loaded, "kl_control", alignment.kl_control or "low", "alignment", "kl_control", absent=_NO_LEVEL),
        stated(loaded, "first_time", bool(goal.first_time), "goal", "first_time"),
        _sections(loaded),
        _has(loaded, "alignment", REWARDS, ENVIRONMENT),
        stated(loaded, "track_project", track.project, "track", "project", absent="the tracker's own default"),
        stated(loaded, "track_run", track.run or loaded.recipe.recipe.name, "track", "run", absent="the recipe's name"),
    ]


def _sections(loaded: LoadedRecipe) -> Decision:
    """The sections of rows that the recipe has, which decide what stages run."""
    given = [name for name in SECTIONS if loaded.is_set("data", name)]
    where = ", ".join(f"`data.{name}` in {loaded.where('data', name)}" for name in given)
    return known("data_sections", given, f"the recipe has {where}", origin="recipe")


def _has(loaded: LoadedRecipe, table: str, key: str, *instead: str) -> Decision:
    """Whether the recipe has a key that only some methods read, or one that stands for it."""
    found = next((name for name in (key, *instead) if loaded.is_set(table, name)), None)
    has, because = found is not None, f"set in {loaded.where(table, found)}" if found else f"no {table}.{key}"
    return known(f"has_{key}", has, because, origin="recipe")
