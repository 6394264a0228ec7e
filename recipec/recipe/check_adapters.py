"""What a recipe with [[adapters]] cannot say beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recipec.axes import ADAPTATIONS, BASES, COMMON_SECTION, LORA_VARIANTS, METHODS, Method, methods_of
from recipec.axes.adaptations import COMBINED
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.document import Written
from recipec.recipe.fields import AUTO
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.schema_adapters import ADAPTER_SOURCES, ADDED_UP, MIX, MIXED
from recipec.recipe.schema_data import DATA_SOURCES

_LIST: KeyPath = ("adapters",)
_MIX: KeyPath = (MIX.asked_in,)
_MODEL: KeyPath = ("model", "name")
_ONE_BASE = "every adapter must start from the same base model"
# Keys of [model] that adapters cannot be combined with -> why, and what to do instead.
_OF_MODEL = {
    "init_from": (
        "each adapter starts anew, from the base model",
        "remove it; to go on with one adapter, write a recipe of its own",
    ),
    "new_tokens": (
        "each adapter would train embeddings of its own, which no merge combines",
        "remove it; or write one recipe for each task",
    ),
}
_TABLES = (("train",), *(("train", name) for name in METHODS))


def data_beside_adapters(written: Written) -> Iterator[Diagnostic]:
    """Each adapter names its own rows."""
    for section in DATA_SOURCES if written.has(*_LIST) else ():
        if written.has("data", section):
            title = f"`data.{section}` and `[[adapters]]` exclude each other"
            labels = (
                written.label(("data", section), "rows of one task"),
                written.label(_LIST, "each adapter names its own rows"),
            )
            help = f"move it into one of the `[[adapters]]`, as `{section}`" if section in _OF_ADAPTERS else "remove it"
            yield Diagnostic("E0414", title, labels, (help,))


_OF_ADAPTERS = (COMMON_SECTION, "eval", "test")  # other rows are of other methods than an adapter's


def same_names(written: Written) -> Iterator[Diagnostic]:
    """An adapter is known by its name."""
    seen: dict[Any, KeyPath] = {}
    for path, table in _adapters(written):
        name, place = table.get("name"), (*path, "name")
        if isinstance(name, str) and name in seen:
            labels = (written.label(place, "second adapter"), written.label(seen[name], "first adapter"))
            yield Diagnostic("E0414", f"two adapters are called `{name}`", labels, ("give each adapter its own name",))
        elif isinstance(name, str):
            seen[name] = place


# Folders of outputs/, what PEFT calls a lone adapter, and columns of combine.py's comparison.
RESERVED = ("combined", "evaluation", "default", "base", "ensemble", "quick", MIX.asked_in)


def named_as_another(written: Written) -> Iterator[Diagnostic]:
    """[train.NAME], a folder or a column would mean two things."""
    for path, table in _adapters(written):
        if table.get("name") in (*METHODS, *RESERVED):
            title = f"an adapter cannot be called `{table['name']}`"
            label = written.label((*path, "name"), "a name that the bundle uses itself")
            yield Diagnostic("E0414", title, (label,), ("name it after its task",))


def one_supervised_stage(written: Written) -> Iterator[Diagnostic]:
    """combine.py compares adapters by the loss of the answers that they learned from."""
    task = written.get("goal", "task")
    rows = methods_of(task) if isinstance(task, str) else []
    if written.has(*_LIST) and rows and not any(map(_supervised, rows)):
        fitting = dict.fromkeys(row.task for row in METHODS.values() if _supervised(row))
        tasks = " or ".join(f'"{name}"' for name in fitting)
        title = f"`goal.task = {task}` and `[[adapters]]` contradict each other"
        labels = (
            written.label(("goal", "task"), "trains no adapter on supervised rows alone"),
            written.label(_LIST, "one supervised adapter for each task"),
        )
        yield Diagnostic("E0414", title, labels, (f"use task = {tasks}, or write one recipe for each task",))


def _supervised(row: Method) -> bool:
    """Whether a method learns rows of data.train as they are, beside weights that are there."""
    return row.section == COMMON_SECTION and row.loss == "supervised" and not row.random_weights


def other_models(written: Written) -> Iterator[Diagnostic]:
    """One base model, known by its name, and nothing of it trained beside the adapters."""
    if not written.has(*_LIST):
        return
    if written.get(*_MODEL) == AUTO:
        labels = (written.label(_MODEL, "chosen for the rows of one task"), written.label(_LIST, _ONE_BASE))
        title = "`model.name = auto` and `[[adapters]]` contradict each other"
        yield Diagnostic("E0414", title, labels, ("name the model",))
    for key, (why, help) in _OF_MODEL.items():
        if written.has("model", key):
            labels = (written.label(("model", key), why), written.label(_LIST, _ONE_BASE))
            title = f"`model.{key}` and `[[adapters]]` exclude each other"
            yield Diagnostic("E0414", title, labels, (help,))


def other_adaptations(written: Written) -> Iterator[Diagnostic]:
    """Adapters are low-rank matrices or bottlenecks: no full models, scales, soft prompts or magnitudes. Those that are
    mixed are bottlenecks."""
    mixed = written.has(*_MIX)
    list_at = _MIX if mixed else _LIST
    for table in _TABLES if written.has(*_LIST) else ():
        for path, value, row in _refused(written, table, COMBINED[dotted(list_at)]):
            asked = f"`[{dotted(_MIX)}]`" if mixed else "`[[adapters]]`"
            title = f"`{dotted(path)}{f' = {value}' if value else ''}` and {asked} contradict each other"
            why = "is not mixed by AdapterFusion" if mixed else "cannot be merged by adding updates"
            labels = (written.label(path, f"{row} {why}"), written.label(list_at, "adapters to be combined"))
            then = f"recipec trains {MIXED.summary}" if mixed else f"every adapter uses {ADDED_UP.title}"
            other = "remove `[fusion]`" if mixed else "write one recipe for each task"
            yield Diagnostic("E0414", title, labels, (f"remove it, and {then}; or {other}",))


def _refused(written: Written, table: KeyPath, trained: tuple[str, ...]) -> Iterator[tuple[KeyPath, str, str]]:
    """What asks for adapters that do not train what may be trained: its path, its value and what it is called."""
    at = (*table, ADDED_UP.table, "variant")
    asked, variant = written.get(*table, "adaptation"), written.get(*at)
    row = ADAPTATIONS.get(asked) if isinstance(asked, str) else None
    if row is not None and row.trains not in trained:
        yield (*table, "adaptation"), row.name, row.title
    kind = LORA_VARIANTS.get(variant) if isinstance(variant, str) else None
    if kind is not None and kind.magnitudes:
        yield at, kind.name, kind.title
    shaping = {row.table: row.title for row in ADAPTATIONS.values() if row.table and row.trains not in trained}
    yield from (((*table, name), "", title) for name, title in shaping.items() if written.has(*table, name))


def mixed_nothing(written: Written) -> Iterator[Diagnostic]:
    """A mix is learned from adapters: of several tasks, by supervised fine-tuning."""
    if not written.has(*_MIX):
        return
    if not written.has(*_LIST):
        title = f"`[{dotted(_MIX)}]` has no `[[adapters]]` to mix"
        label = written.label(_MIX, "a learned mix of the adapters of several tasks")
        yield Diagnostic("E0414", title, (label,), ("write one `[[adapters]]` table for each task, or remove it",))
    task = written.get("goal", "task")
    rows = methods_of(task) if isinstance(task, str) else []
    if rows and not any(MIX.name in row.adaptations for row in rows):
        fitting = " or ".join(f'"{row.task}"' for row in METHODS.values() if MIX.name in row.adaptations)
        labels = (written.label(("goal", "task"), "was not run with it"), written.label(_MIX, MIX.title))
        title = f"`goal.task = {task}` and `[{dotted(_MIX)}]` contradict each other"
        yield Diagnostic("E0414", title, labels, (f"use task = {fitting}, or remove `[{dotted(_MIX)}]`",))


def ranks_of_mixed(written: Written) -> Iterator[Diagnostic]:
    """A bottleneck adapter has a width and no rank."""
    for path, table in _adapters(written) if written.has(*_MIX) else ():
        if "rank" in table:
            title = "`rank` of an adapter and `[fusion]` contradict each other"
            labels = (written.label((*path, "rank"), "of LoRA"), written.label(_MIX, f"mixes {MIXED.title}s"))
            help = "set `reduction_factor` under [train.bottleneck], which holds for all adapters, or remove `[fusion]`"
            yield Diagnostic("E0414", title, labels, (help,))


def quantized_mixed(written: Written) -> Iterator[Diagnostic]:
    """Bottleneck adapters, and the mix of them, have the base as it is."""
    for table in _TABLES if written.has(*_MIX) and written.has(*_LIST) else ():
        asked = written.get(*table, "quantization")
        if isinstance(asked, str) and asked in BASES and asked != MIX.base:
            path = (*table, "quantization")
            title = f"`{dotted(path)} = {asked}` and `[fusion]` contradict each other"
            labels = (
                written.label(path, "a quantized base"),
                written.label(_MIX, "mixes adapters on the base as it is"),
            )
            yield Diagnostic("E0414", title, labels, ("remove it, or remove `[fusion]`",))


def held_out_of_some(written: Written) -> Iterator[Diagnostic]:
    """Rows of some adapters and not of others would judge the mix by some of its tasks."""
    adapters = list(_adapters(written))
    for part in ADAPTER_SOURCES[1:] if written.has(*_MIX) and not written.has(*_MIX, "train") else ():
        with_rows = [path for path, table in adapters if part in table]
        stated = written.has(*_MIX, part) or written.has(*_MIX, f"{part}_fraction")
        if with_rows and len(with_rows) < len(adapters) and not stated:
            title = f"`{part}` of some adapters does not say what the mix of all is judged by"
            labels = (written.label((*with_rows[0], part), "of one task"), written.label(_MIX, "learns from all tasks"))
            help = f"set `{part}` or `{part}_fraction` under [fusion], or `{part}` of every adapter"
            yield Diagnostic("E0414", title, labels, (help,))


def _adapters(written: Written) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    adapters = written.get(*_LIST)
    for index, table in enumerate(adapters if isinstance(adapters, list) else ()):
        if isinstance(table, dict):
            yield (*_LIST, index), table


ADAPTER_CHECKS = (
    data_beside_adapters,
    same_names,
    named_as_another,
    one_supervised_stage,
    other_models,
    other_adaptations,
    mixed_nothing,
    ranks_of_mixed,
    quantized_mixed,
    held_out_of_some,
)
