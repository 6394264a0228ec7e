"""Pairs of keys whose values cannot hold together: one table. What the four axes rule out comes from their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from recipec.axes import (
    ADAPTATIONS,
    BASES,
    COMMON_SECTION,
    METHODS,
    OFFLOADS,
    ROW_FORMATS,
    SECTIONS,
    STRATEGIES,
    Adaptation,
    Method,
    earlier,
    families,
    formats_of,
    meant_by,
    methods_of,
    sections_of,
    stages_of,
    tasks,
)
from recipec.axes.attention import ATTENTIONS, SDPA
from recipec.axes.optimizers import PAGED
from recipec.axes.strategies import ON_DEVICE
from recipec.axes.tasks import KL_CONTROLS, NO_ALIGNMENT
from recipec.diagnostics.model import Diagnostic, Label, Place
from recipec.recipe.document import Written
from recipec.recipe.fields import AUTO
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.schema_data import GENERAL
from recipec.recipe.schema_training import ADAPTED

Values = tuple[Any, ...] | None
ANY: Values = None
ADAPTATION, QUANTIZATION = ("train", "adaptation"), ("train", "quantization")
STRATEGY, OFFLOAD, PRECISION = ("train", "strategy"), ("train", "offload"), ("train", "precision")
RECOMPUTE, EVERY = ("train", "activation_checkpointing"), ("train", "recompute_every")
ACTIVATIONS = ("train", "activation_offload")
ATTENTION, OPTIMIZER = ("train", "attention"), ("train", "optimizer")
GPU, TASK, METHOD = ("hardware", "gpu"), ("goal", "task"), ("alignment", "method")
KL_CONTROL = ("alignment", "kl_control")
FORMAT, OVERFLOW = ("data", "format"), ("data", "overflow")
TABLES = tuple(dict.fromkeys(row.table for row in ADAPTATIONS.values() if row.table))  # of [train], for adapters


class Clash(Struct, frozen=True):
    """Two keys, the values of each that cannot hold together (ANY: whatever it is), and why."""

    one: tuple[str, ...]
    one_values: Values
    other: tuple[str, ...]
    other_values: Values
    why: str
    help: str
    code: str = "E0401"


def clashes(written: Written) -> Iterator[Diagnostic]:
    """Two keys whose values cannot hold together."""
    for clash in CLASHES:
        if _holds(written, clash.one, clash.one_values) and _holds(written, clash.other, clash.other_values):
            one, other = (_place(written, path) for path in (clash.one, clash.other))
            labels = (written.label(one, clash.why), written.label(other, "conflicting value"))
            title = f"{_named(written, one)} and {_named(written, other)} contradict each other"
            yield Diagnostic(clash.code, title, labels, (clash.help,))


def _holds(written: Written, path: KeyPath, values: Values) -> bool:
    if path == METHOD and values is not ANY:
        return written.method in values
    return written.has(*path) if values is ANY else written.get(*path) in values


def _place(written: Written, path: KeyPath) -> KeyPath:
    """Where a recipe says what is at the path: it may ask for a method by the level of KL control."""
    return written.asks_method if path == METHOD else path


def _named(written: Written, path: KeyPath) -> str:
    value = written.get(*path)
    return f"`{dotted(path)} = {value}`" if isinstance(value, str) else f"`{dotted(path)}`"


def either(names: Iterable[str], mark: str = '"', last: str = "or") -> str:
    """Names in a sentence: `"a", "b" or "c"`."""
    *first, end = [f"{mark}{name}{mark}" for name in names]
    return f"{', '.join(first)} {last} {end}" if first else end


# What the rows of adaptations, bases and strategies rule out.


def _bases_of_adaptations() -> Iterator[Clash]:
    for value in families():
        bases = list(dict.fromkeys(row.base for row in meant_by(value)))
        for base in (base for base in BASES if base not in bases):
            fitting = [other for other in families() if base in {row.base for row in meant_by(other)}]
            if meant_by(value)[0].trains_all:
                why = f"{BASES[base].title} weights cannot be trained"
            else:
                why = f"{value} goes with quantization = {either(bases)}"
            yield Clash(ADAPTATION, (value,), QUANTIZATION, (base,), why, f"use adaptation = {either(fitting)}")


def _tables_of_adaptations() -> Iterator[Clash]:
    for table in TABLES:
        shaped = [value for value in families() if table in {row.table for row in meant_by(value)}]
        help = f"remove {table}, or use adaptation = {either(shaped)}"
        for value in (value for value in families() if value not in shaped):
            why = f"{meant_by(value)[0].title} has no {table} adapters"
            for place in (("train",), *(("train", stage) for stage in ADAPTED)):
                yield Clash(ADAPTATION, (value,), (*place, table), ANY, why, help)


def _own_keys_of_adaptations() -> Iterator[Clash]:
    """A key that only one of the adaptations of a table has."""
    for row in (row for row in ADAPTATIONS.values() if row.own_key):
        others = [other for other in ADAPTATIONS.values() if other.table == row.table and other is not row]
        for other, place in product(others, (("train",), *(("train", stage) for stage in ADAPTED))):
            why, help = f"{other.title} has no {row.own_key}", f'remove it, or use adaptation = "{row.family}"'
            yield Clash(ADAPTATION, (other.family,), (*place, row.table, row.own_key), ANY, why, help)


def _not_on_cpu() -> Iterator[Clash]:
    fitting = [row.name for row in STRATEGIES.values() if row.on_cpu]
    barred = tuple(row.name for row in STRATEGIES.values() if not row.on_cpu)
    help = f"use strategy = {either(fitting)} on a CPU"
    yield Clash(STRATEGY, barred, GPU, ("cpu",), "runs on GPUs only", help)
    for base in (base for base in BASES.values() if base.not_on_cpu):
        for value in (value for value in families() if all(row.base == base.name for row in meant_by(value))):
            help = f'use adaptation = "{meant_by(value)[0].family}" on a CPU'
            yield Clash(ADAPTATION, (value,), GPU, ("cpu",), base.not_on_cpu, help)
        help = "remove it: the base is then trained on as it is"
        yield Clash(QUANTIZATION, (base.name,), GPU, ("cpu",), base.not_on_cpu, help)


def _offloads() -> Iterator[Clash]:
    for value in (value for value in OFFLOADS if value != ON_DEVICE):
        able = [row.name for row in STRATEGIES.values() if value in row.offloads]
        unable = tuple(name for name in STRATEGIES if name not in able)
        why, help = f"only {either(able, '', 'and')} can offload", f"use strategy = {either(able)}"
        yield Clash(OFFLOAD, (value,), STRATEGY, unable, why, help)
        yield Clash(OFFLOAD, (value,), GPU, ("cpu",), "CPU offload needs a GPU", "remove offload")


# What the rows of methods rule out, for a task and for the method that alignment.method names.

Had = Callable[[str, str | None], Collection[str]]


class Asked(Struct, frozen=True):
    """A value of goal.task, or of alignment.method within a task."""

    task: str
    method: str | None  # None: the task alone

    @property
    def path(self) -> KeyPath:
        return TASK if self.method is None else METHOD

    @property
    def values(self) -> tuple[str]:
        return (self.task if self.method is None else self.method,)

    @property
    def noun(self) -> str:
        return "this task" if self.method is None else "this method"

    def help(self, methods: Iterable[Method], otherwise: str) -> str:
        """The line that chooses one of the methods, where there is one to choose; or what else can be done."""
        names = dict.fromkeys(row.task if self.method is None else row.alignment for row in methods)
        choices = [name for name in names if name]
        return f"use {self.path[-1]} = {either(choices)}, or {otherwise}" if choices else otherwise


def _barred(everything: Iterable[str], had: Had) -> Iterator[tuple[Asked, str]]:
    """What a task has no use for, and what the method that is named has none for though its task has."""
    for task in tasks():
        known = [name for name in everything if name in had(task, None)]
        yield from ((Asked(task, None), name) for name in everything if name not in known)
        named = [row.alignment for row in methods_of(task) if row.alignment]
        for method in (NO_ALIGNMENT, *named) if named else ():
            yield from ((Asked(task, method), name) for name in known if name not in had(task, method))


def _last(task: str, named: str | None) -> tuple[Method, ...]:
    """The methods that can fulfil the task; those of the task where none of them is to run."""
    return methods_of(task, named) or methods_of(task)


def _able(task: str, named: str | None) -> list[Adaptation]:
    return [
        row for name, row in ADAPTATIONS.items() if any(name in method.adaptations for method in _last(task, named))
    ]


def _adaptations_of_methods() -> Iterator[Clash]:
    def values(task: str, named: str | None) -> list[str]:
        return [value for value in families() if any(row in meant_by(value) for row in _able(task, named))]

    def bases(task: str, named: str | None) -> list[str]:
        return [row.base for row in _able(task, named)]

    def tables(task: str, named: str | None) -> list[str]:
        return [row.table for row in _able(task, named)]

    def clash(key: KeyPath, values: tuple[str, ...], choice: Asked) -> Clash:
        why = _last(choice.task, choice.method)[0].adaptations_because
        return Clash(key, values, choice.path, choice.values, why, "remove it")

    yield from (clash(ADAPTATION, (name,), choice) for choice, name in _barred(families(), values))
    yield from (clash(QUANTIZATION, (name,), choice) for choice, name in _barred(BASES, bases))
    yield from (clash(("train", name), ANY, choice) for choice, name in _barred(TABLES, tables))


def _stages_of_tasks() -> Iterator[Clash]:
    def names(task: str, named: str | None) -> list[str]:
        return [row.name for row in stages_of(task, named)]

    for choice, stage in _barred(METHODS, names):
        why = f"{choice.noun} has no such stage"
        yield Clash(("train", stage), ANY, choice.path, choice.values, why, "remove it")


def _sections_of_tasks() -> Iterator[Clash]:
    def names(task: str, named: str | None) -> list[str]:
        return list(sections_of(_last(task, named)))

    own = [section for section in SECTIONS if section != COMMON_SECTION]
    for choice, section in _barred(own, names):
        why = f"{choice.noun} does not read it"
        reading = (row for row in METHODS.values() if section in {one.section for one in (row, *earlier([row]))})
        help = choice.help(reading, f"remove {section}")
        yield Clash(("data", section), ANY, choice.path, choice.values, why, help)


def _formats_of_tasks() -> Iterator[Clash]:
    def names(task: str, named: str | None) -> tuple[str, ...]:
        return formats_of(stages_of(task, named))

    for choice, format in _barred(ROW_FORMATS, names):
        why = f"{choice.noun} takes {either(names(choice.task, choice.method), '')} rows"
        help = choice.help((row for row in METHODS.values() if format in row.formats), "use other rows")
        yield Clash(FORMAT, (format,), choice.path, choice.values, why, help)


_WITHOUT_TOKENS = tuple(task for task in tasks() if not any(row.learns_tokens for row in stages_of(task)))
_OTHER_TASK = "train them in a recipe of continued pretraining or supervised fine-tuning, and name its result"
_NO_REPLAY = "replay them in a recipe of continued pretraining or supervised fine-tuning, or remove general"
_KEYED = [task for task in tasks() if any(row.is_set_in_alignment for row in methods_of(task))]


def _alignment_of_tasks() -> Clash:
    help = f"use task = {either(_KEYED)}, or remove [alignment]"
    others = tuple(task for task in tasks() if task not in _KEYED)
    return Clash(("alignment",), ANY, TASK, others, "this task does not read it", help)


def _models_of_tasks() -> Iterator[Clash]:
    """A model cannot be chosen by its size alone where another one must share its vocabulary."""
    for task in tasks():
        if needed := [name for row in methods_of(task) for name in row.needs_vocabulary_of]:
            why = f"it must have the vocabulary of the {needed[0]}"
            yield Clash(("model", "name"), (AUTO,), TASK, (task,), why, "name the model")


def _answers_of_tasks() -> Iterator[Clash]:
    """The length of generated answers, for a task whose result writes none."""
    for task in tasks():
        if not any(row.writes for row in methods_of(task)):
            why = "its result scores and writes nothing"
            yield Clash(("evaluate", "max_new_tokens"), ANY, TASK, (task,), why, "remove max_new_tokens")


def _methods_of_tasks() -> Iterator[Clash]:
    """A task whose method has keys of its own, and is the only one."""
    named = (NO_ALIGNMENT, *(row.alignment for row in METHODS.values() if row.alignment))
    for task in tasks():
        if any(row.own for row in methods_of(task)) and not any(row.alignment for row in methods_of(task)):
            yield Clash(METHOD, named, TASK, (task,), "this task has one method", "remove method")
            levels = tuple(KL_CONTROLS)
            yield Clash(KL_CONTROL, levels, TASK, (task,), "this task has one method", "remove kl_control")


def _overflows_of_methods() -> Iterator[Clash]:
    """A trainer that leaves long rows out cannot be asked to cut them."""

    def values(task: str, named: str | None) -> list[str]:
        return ["truncate" for row in _last(task, named) if row.truncates]

    for choice, value in _barred(["truncate"], values):
        why = f"{_last(choice.task, choice.method)[0].trainer} leaves longer rows out"
        yield Clash(OVERFLOW, (value,), choice.path, choice.values, why, 'use overflow = "drop"')


def _formats_to_split() -> Clash:
    whole = tuple(row.name for row in ROW_FORMATS.values() if not row.splits)
    return Clash(OVERFLOW, ("split",), FORMAT, whole, WHY_NOT_SPLIT, 'use overflow = "drop" or "truncate"')


_TEXTS = " and ".join(row.means for row in ROW_FORMATS.values() if row.splits)
WHY_NOT_SPLIT = f"only {_TEXTS} can be split into several examples"


def _attentions() -> Iterator[Clash]:
    """What some implementations of attention do not compute."""
    help = f'use attention = "{SDPA}"'
    for row in ATTENTIONS.values():
        if row.gpu_only:
            why = f"{row.package or row.name} needs a GPU"
            yield Clash(ATTENTION, (row.name,), GPU, ("cpu",), why, help, code="E0405")
        if row.half_only:
            why = f"{row.package or row.name} computes in fp16 and bf16 only"
            yield Clash(ATTENTION, (row.name,), PRECISION, ("fp32",), why, help, code="E0405")


CLASHES: tuple[Clash, ...] = (
    *_bases_of_adaptations(),
    *_tables_of_adaptations(),
    *_own_keys_of_adaptations(),
    *_adaptations_of_methods(),
    *_offloads(),
    *_not_on_cpu(),
    Clash(OPTIMIZER, PAGED, GPU, ("cpu",), "paged optimizers need a GPU", 'use optimizer = "adamw" on a CPU'),
    Clash(ACTIVATIONS, (True,), GPU, ("cpu",), "CPU offload needs a GPU", "remove activation_offload"),
    Clash(EVERY, ANY, RECOMPUTE, (False,), "it needs gradient checkpointing", "remove one of them"),
    Clash(ACTIVATIONS, (True,), RECOMPUTE, (False,), "it needs gradient checkpointing", "remove one of them"),
    Clash(PRECISION, ("fp16",), GPU, ("cpu",), "a CPU trains in fp32 or bf16", 'use precision = "fp32"'),
    *_attentions(),
    *_sections_of_tasks(),
    _alignment_of_tasks(),
    *_methods_of_tasks(),
    *_models_of_tasks(),
    *_overflows_of_methods(),
    Clash(("model", "new_tokens"), ANY, TASK, _WITHOUT_TOKENS, "its embeddings would not be trained", _OTHER_TASK),
    Clash(("data", GENERAL), ANY, TASK, _WITHOUT_TOKENS, "no stage of this task replays general rows", _NO_REPLAY),
    *_answers_of_tasks(),
    *_stages_of_tasks(),
    *_formats_of_tasks(),
    _formats_to_split(),
)


def foreign_keys(written: Written) -> Iterator[Diagnostic]:
    """A key of [alignment], and its value, are those of the method that runs."""
    task, named = written.get(*TASK), written.method
    if task not in _KEYED:
        return
    for key, value in own_keys(written.get("alignment") or {}):
        methods = methods_of(task, named)
        if ("alignment", key) not in (METHOD, KL_CONTROL) and not any(row.can_set(key, value) for row in methods):
            other = written.asks_method if written.has(*METHOD) or named else TASK
            runs = f"{either((row.name for row in methods), '')} runs" if methods else "no preference stage runs"
            yield foreign(key, value, methods, written.value("alignment", *key.split(".")), written.label(other, runs))


_OWN_TABLES = {own.key.partition(".")[0] for row in METHODS.values() for own in row.keys if "." in own.key}


def own_keys(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys of [alignment] with their values; those of a table in it as "generation.temperature"."""
    for key, value in table.items():
        if key in _OWN_TABLES and isinstance(value, Mapping):
            yield from ((f"{key}.{name}", part) for name, part in value.items())
        else:
            yield key, value


def foreign(key: str, value: Any, methods: Sequence[Method], at: Place, other: Label) -> Diagnostic:
    """A key of [alignment] that none of the methods can set to its value; `other` is where the methods follow from."""
    for row in methods:
        for own in row.keys:
            if own.key == key and own.values is None:
                least = "at least" if own.closed else "more than"
                limits = f"must be {least} {own.above:g} and at most {own.most:g} for {row.name}"
                return Diagnostic("E0205", f"`alignment.{key}` is {value:g}", (Label(at, limits), other))
    owners = [row for row in METHODS.values() if row.can_set(key, value)]
    shown = f' = "{value}"' if isinstance(value, str) else ""
    names = either((row.name for row in owners), "")
    title, label = f"`alignment.{key}{shown}` belongs to {names}", Label(at, f"recipec has it for {names} alone")
    tasks_here = {row.task for row in methods or owners}
    choices = [row.alignment for row in owners if row.alignment and row.task in tasks_here]
    help = f"use method = {either(choices)}, or remove {key}" if choices else f"remove {key}"
    namesakes = {own.key for row in methods for own in row.keys if own.key.rpartition(".")[2] == key}
    help = f"set `alignment.{min(namesakes)}` of {methods[0].name}, or {help}" if namesakes else help
    return Diagnostic("E0401", title, (label, other), (help,))
