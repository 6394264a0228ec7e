"""Keys that are right each by itself and cannot hold together. Every finding names both places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from math import lcm
from typing import Any

from recipec.axes import METHODS, NAMED_MODELS, STRATEGIES, methods_of
from recipec.axes.method import REWARDS
from recipec.diagnostics.codes import CODES
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.recipe.check_adapters import ADAPTER_CHECKS
from recipec.recipe.check_data import (
    bad_columns,
    bad_sources,
    counted_twice,
    fractions_too_large,
    ignored_though_read,
    listed_twice,
    missing_data,
    nothing_to_run,
    pointless_split,
    weighed_for_nothing,
)
from recipec.recipe.check_elastic import held_by_nothing, replay_of_nothing
from recipec.recipe.check_rewards import controlled_without_pairs, judged_twice, missing_rewards
from recipec.recipe.check_server import no_gpus_to_serve, said_of_no_copy, said_of_no_server
from recipec.recipe.check_tools import longer_than_answers, said_of_no_tools
from recipec.recipe.clashes import (
    TASK,
    clashes,
    either,
    foreign_keys,
)
from recipec.recipe.document import Written
from recipec.recipe.empty_tables import empty_tables
from recipec.recipe.launch_script import said_of_no_script, taken_variables, unreadable_setup
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.loops import asked_of_loops
from recipec.recipe.passed_on import refused_arguments, reserved_variables, secrets, unusable_arguments
from recipec.recipe.schema import AUTO, EXCLUSIVE, NAMED_ONLY, PROJECT_VARIABLES, STEERING
from recipec.rules.schedule import DECAY_SHARE

STRATEGY, GPU, GPUS = ("train", "strategy"), ("hardware", "gpu"), ("hardware", "gpus_per_node")
NODES, MODEL = ("hardware", "nodes"), ("model", "name")
DECAYS = "warmup-stable-decay"
_FOLDER = re.compile(r"\.{0,2}/|~")


def contradictions(written: Written, report: Report, *, of_task: bool = False) -> None:
    """Report every contradiction that the recipe's own keys show (E0201, E0204, E04xx).

    `of_task` says that it is what one of [[adapters]] makes of a recipe, whose list was looked at before.
    """
    for check in CHECKS if of_task else (*ADAPTER_CHECKS, *CHECKS):
        for diagnostic in check(written):
            report.add(diagnostic)


def _both_of_exclusive(written: Written) -> Iterator[Diagnostic]:
    for group in EXCLUSIVE:
        first, *more = [path for path in group if written.has(*path)] or [None]
        for other in more:
            title = f"`{dotted(first)}` and `{dotted(other)}` exclude each other"
            upper, lower = sorted((first, other), key=lambda path: written.value(*path).span)
            labels = (written.label(lower, "second value"), written.label(upper, "first value"))
            yield Diagnostic("E0401", title, labels, ("remove one of them",))


def _no_hardware(written: Written) -> Iterator[Diagnostic]:
    if written.lacks("hardware", "gpu") and written.lacks("hardware", "vram_gib"):
        label = written.label(("hardware",), "needs `gpu` or `vram_gib`")
        yield Diagnostic("E0201", "missing key `gpu` in [hardware]", (label,), ('for example gpu = "rtx-4090"',))


def _gpus_for_strategy(written: Written) -> Iterator[Diagnostic]:
    """One GPU takes one process; several take a strategy that uses them."""
    row, on_cpu = STRATEGIES.get(written.get(*STRATEGY)), written.get(*GPU) == "cpu"
    gpus, nodes = written.get(*GPUS), written.get(*NODES)
    if row is None or (on_cpu and not row.on_cpu):  # that it does not run on a CPU is another finding
        return
    if written.is_meant(*GPUS) or written.is_meant(*NODES):
        return
    noun, nouns = ("process", "processes") if on_cpu else ("GPU", "GPUs")
    if row.one_rank and gpus and gpus > 1:
        why = f"{gpus} {nouns} are stated here"
        help = f'use strategy = "{_first(distributed=True)}", or gpus_per_node = 1'
    elif nodes is not None and nodes > 1:
        return
    elif row.distributed and gpus in (None, 1) and not (gpus is None and written.has(*GPUS)):
        why = f"one {noun} is stated here"
        help = f'use strategy = "{_first(distributed=False)}", or state gpus_per_node'
    else:
        return
    place = GPUS if gpus else (GPU if written.has(*GPU) else ("hardware", "vram_gib"))
    takes = f"needs two {nouns} or more" if row.distributed else f"runs on one {noun}"
    labels = (written.label(STRATEGY, takes), written.label(place, why))
    title = f"`train.strategy = {row.name}` does not suit the number of {nouns}"
    yield Diagnostic("E0401", title, labels, (help,))


def _first(*, distributed: bool) -> str:
    """The simplest strategy for one GPU or for several."""
    return next(row.name for row in STRATEGIES.values() if row.distributed is distributed)


def idle_model_keys(written: Written) -> Iterator[Diagnostic]:
    """Keys that steer the choice of a model need `auto`; keys about one model need its name."""
    name = written.get(*MODEL)
    if name is None:
        return
    chosen = name == AUTO
    for path in NAMED_ONLY if chosen else STEERING:
        if written.has(*path):
            why = "applies to a named model" if chosen else "applies to the choice of a model"
            other = "no model is named" if chosen else "the model is named"
            help = "name the model, or remove this key" if chosen else f'use name = "{AUTO}", or remove this key'
            title = f"`{dotted(path)}` and `model.name = {name}` contradict each other"
            yield Diagnostic("E0401", title, (written.label(path, why), written.label(MODEL, other)), (help,))


def indivisible_batches(written: Written) -> Iterator[Diagnostic]:
    """A global batch is a whole number of micro batches; on how many GPUs they run is the planner's to find."""
    for table in (("train",), *(("train", stage) for stage in METHODS)):
        total, micro = setting(written, table, "global_batch_size"), setting(written, table, "micro_batch_size")
        if not total or not micro or not any(written.has(*path) for path in (total, micro) if path[:-1] == table):
            continue
        if written.get(*total) % written.get(*micro):
            yield _indivisible(written, total, micro)


def setting(written: Written, table: tuple[str, ...], key: str) -> tuple[str, ...] | None:
    """Return where a stage's value is set: in its own table, else in [train]."""
    return next((path for path in ((*table, key), ("train", key)) if written.get(*path) is not None), None)


def _indivisible(written: Written, total: tuple[str, ...], micro: tuple[str, ...]) -> Diagnostic:
    size, part = written.get(*total), written.get(*micro)
    labels = (written.label(total, f"not a multiple of {part}"), written.label(micro, "micro batch"))
    ranks = (written.get(*GPUS) or 1) * (written.get(*NODES) or 1)  # so that every GPU trains
    step = lcm(part * ranks, written.get("alignment", "generation", "per_prompt") or 1)
    near = either((str(value) for value in (size // step * step, size // step * step + step) if value), "")
    title = f"a global batch of {size} is not a whole number of micro batches of {part}"
    return Diagnostic("E0401", title, labels, (f"use global_batch_size = {near}",))


def no_room_to_decay(written: Written) -> Iterator[Diagnostic]:
    """Warmup and decay together are no more than all steps."""
    for table in (("train",), *(("train", stage) for stage in METHODS)):
        schedule, warmup = setting(written, table, "schedule"), setting(written, table, "warmup")
        if (
            not schedule
            or not warmup
            or not any(written.has(*path) for path in (schedule, warmup) if path[:-1] == table)
        ):
            continue
        if written.get(*schedule) == DECAYS and written.get(*warmup) + DECAY_SHARE > 1:
            labels = (
                written.label(warmup, "the rate rises for this share"),
                written.label(schedule, "and then decays"),
            )
            help = (f"the decay takes {DECAY_SHARE:g} of the steps: a warmup of {1 - DECAY_SHARE:g} at most",)
            yield Diagnostic("E0401", "warmup and decay together take more than 100% of the steps", labels, help)


def missing_models(written: Written) -> Iterator[Diagnostic]:
    """A method that runs another model beside its own has it named."""
    task, named = written.get(*TASK), written.method
    needed = [set(row.named_models) for row in methods_of(task, named)]
    for name in (name for name in NAMED_MODELS if needed and all(name in models for models in needed)):
        if written.lacks("alignment", name):
            help = f'for example {name} = "{NAMED_MODELS[name].examples[0]}"'
            label = written.label(TASK, f"needs `{name}`")
            yield Diagnostic("E0201", f"missing key `{name}` in [alignment]", (label,), (help,))


def idle_project(written: Written) -> Iterator[Diagnostic]:
    """A project needs a tracker that has projects, unless a recipe replaces the tracker of the one that it extends."""
    project, to = ("track", "project"), ("track", "to")
    chosen = written.get(*to) or "tensorboard"
    trackers = [chosen] if isinstance(chosen, str) else chosen
    if not written.has(*project) or written.is_meant(*to) or not PROJECT_VARIABLES.keys().isdisjoint(trackers):
        return
    labels = [written.label(project, "read by W&B and MLflow only")]
    if written.has(*to):
        if written.key(*to).file != written.key(*project).file:
            return
        labels.append(written.label(to, "has no projects"))
    help = f"set `track.to` to {either(PROJECT_VARIABLES)}, or remove `track.project`"
    title = f"`track.project` has no effect with {either(trackers, '`', 'and')}"
    yield Diagnostic("E0401", title, tuple(labels), (help,))


def misplaced_policy(written: Written) -> Iterator[Diagnostic]:
    """A policy binds the recipes that extend it; in the recipe itself it would bind nobody."""
    own = written.document.source.shown
    for key in written.get("policy") or {}:
        place = written.key("policy", key)
        if place.file == own:
            label = Label(place, "applies only to recipes that extend this file")
            help = "move [policy] to the shared recipe, or use [budget]"
            yield Diagnostic("E0404", f"`{key}` of [policy] in the recipe itself", (label,), (help,))


def broken_policy(written: Written) -> Iterator[Diagnostic]:
    """The limits that the recipe's own keys show to be broken; licenses and cost are known only later."""
    unclosed = list(_unclosed_patterns(written))
    yield from unclosed or _model_not_allowed(written)
    yield from _too_many_gpus(written)
    most, cost = written.get("policy", "max_usd"), written.get("budget", "max_cost_usd")
    if most is not None and cost is not None and cost > most:
        labels = _over(written, ("budget", "max_cost_usd"), "max_usd")
        title = f"`max_cost_usd = {cost:g}` breaks the policy `max_usd = {most:g}`"
        yield Diagnostic("E0404", title, labels, (f"use {most:g} or less",))


def _is_open(pattern: str) -> bool:
    """Whether a `[` of the pattern has no end, so that fnmatch takes it for itself; a set may begin with `]`."""
    at = pattern.find("[")
    while at >= 0:
        first = at + 1 + (pattern[at + 1 : at + 2] == "!")
        end = pattern.find("]", first + 1)
        if end < 0:
            return True
        at = pattern.find("[", end)
    return False


def _unclosed_patterns(written: Written) -> Iterator[Diagnostic]:
    """A set of characters without its end would match no model, and nobody would know why."""
    for index, pattern in enumerate(written.get("policy", "models") or []):
        if _is_open(pattern):
            label = written.label(("policy", "models", index), "`[` begins a set of characters that no `]` ends")
            help = "close it, as in `[ab]*`; write `[[]` for the character"
            yield Diagnostic("E0206", f"`{pattern}` is not a pattern of names", (label,), (help,))


def _too_many_gpus(written: Written) -> Iterator[Diagnostic]:
    """The GPUs of all nodes count."""
    most, each = written.get("policy", "max_gpus"), written.get("hardware", "gpus_per_node") or 1
    nodes = written.get("hardware", "nodes") or 1
    if most is None or each * nodes <= most:
        return
    key = "gpus_per_node" if each > most or nodes == 1 else "nodes"
    named = f"`gpus_per_node = {each}`" + f" on {nodes} nodes, {each * nodes} GPUs," * (nodes > 1)
    title = f"{named} breaks the policy `max_gpus = {most}`"
    yield Diagnostic(
        "E0404", title, _over(written, ("hardware", key), "max_gpus"), (f"use at most {most} GPUs in all",)
    )


def _over(written: Written, path: KeyPath, limit: str) -> tuple[Label, Label]:
    return written.label(path, "over the limit"), written.label(("policy", limit), "the limit")


def _model_not_allowed(written: Written) -> Iterator[Diagnostic]:
    patterns = written.get("policy", "models")
    for path, name in _models_named(written):
        if patterns and name and name != AUTO and not any(fnmatchcase(name, pattern) for pattern in patterns):
            labels = (written.label(path, "not allowed"), written.label(("policy", "models"), "the policy"))
            help = f"allowed are {', '.join(f'`{pattern}`' for pattern in patterns)}"
            yield Diagnostic("E0404", f"the policy does not allow the model `{name}`", labels, (help,))


def _models_named(written: Written) -> Iterator[tuple[KeyPath, Any]]:
    """Every model that a recipe names, and where: what is trained, what teaches and what judges."""
    for path in (("model", "name"), *(("alignment", name) for name in NAMED_MODELS)):
        value = written.get(*path)
        yield path, value.get("name") if isinstance(value, Mapping) else value
    rewards = written.get("alignment", REWARDS)
    for index, reward in enumerate(rewards if isinstance(rewards, list) else [rewards]):
        if isinstance(reward, Mapping):
            yield ("alignment", REWARDS, index), reward.get("model")


def _revisions_of_folders(written: Written) -> Iterator[Diagnostic]:
    """A revision is one of a repository on the Hub; a folder is read as it is."""
    for path, name in _models_named(written):
        table = path[:1] if path == MODEL else path
        if isinstance(name, str) and _FOLDER.match(name) and written.has(*table, "revision"):
            labels = (written.label((*table, "revision"), "has no effect"), written.label(path, "a folder"))
            help = "remove it, and let the folder hold the weights that you want"
            yield Diagnostic("E0401", f"the folder `{name}` has no revisions", labels, (help,))


def unknown_codes(written: Written) -> Iterator[Diagnostic]:
    """Only warnings that exist can be silenced."""
    for index, code in enumerate(written.get("recipe", "allow") or []):
        if code not in CODES:
            known = ", ".join(f"`{known}`" for known in CODES if known.startswith("W"))
            label = written.label(("recipe", "allow", index), "no such warning")
            yield Diagnostic("E0204", f"`{code}` is not a warning", (label,), (f"the warnings are {known}",))


_CURRICULUM = ("train", "curriculum")


def _order_of_nothing(written: Written) -> Iterator[Diagnostic]:
    """A curriculum that does not say what makes a row hard; that of a stage goes on from the one of all stages."""
    for path in (_CURRICULUM, *(("train", stage, "curriculum") for stage in METHODS)):
        said = any(written.has(*table, key) for table in (path, _CURRICULUM) for key in ("by", "column"))
        if written.has(*path) and not said:
            title = f"`{dotted(path)}` does not say what makes a row hard"
            help = ('add `by = "length"`, or `column = "…"` with the name of a column that holds numbers',)
            yield Diagnostic("E0201", title, (written.label(path, "needs `by` or `column`"),), help)


Check = Callable[[Written], Iterator[Diagnostic]]
CHECKS: tuple[Check, ...] = (
    _no_hardware,
    missing_data,
    missing_models,
    missing_rewards,
    controlled_without_pairs,
    judged_twice,
    said_of_no_tools,
    longer_than_answers,
    said_of_no_server,
    said_of_no_copy,
    no_gpus_to_serve,
    nothing_to_run,
    _both_of_exclusive,
    clashes,
    foreign_keys,
    idle_model_keys,
    _revisions_of_folders,
    _gpus_for_strategy,
    bad_sources,
    pointless_split,
    counted_twice,
    ignored_though_read,
    listed_twice,
    weighed_for_nothing,
    fractions_too_large,
    bad_columns,
    indivisible_batches,
    no_room_to_decay,
    _order_of_nothing,
    empty_tables,
    held_by_nothing,
    replay_of_nothing,
    idle_project,
    refused_arguments,
    asked_of_loops,
    unusable_arguments,
    secrets,
    reserved_variables,
    taken_variables,
    unreadable_setup,
    said_of_no_script,
    unknown_codes,
    misplaced_policy,
    broken_policy,
)
