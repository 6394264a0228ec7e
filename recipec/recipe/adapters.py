"""[[adapters]] and [fusion]: each stage as a recipe of its own, so that every other pass reads what it always reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.diagnostics.model import Diagnostic
from recipec.recipe.document import Document, Located
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.schema import rivals
from recipec.recipe.schema_adapters import ADAPTER_SOURCES, MIX, OF_ONE_TASK

LIST = "adapters"  # the key of the list
FUSION = MIX.asked_in  # the table of what is learned behind them, and the name of that stage
_OF_ADAPTERS = ("learning_rate", "epochs", "max_steps")  # of [train]: the mix has its own in its table


def of_one_task(document: Document) -> dict[str, Document]:
    """Name of an adapter -> the recipe that trains it alone; empty where a sound recipe has no [[adapters]]."""
    adapters = document.data.get(LIST) or []
    found = {table["name"]: _alone(document, table, (LIST, index)) for index, table in enumerate(adapters)}
    return found | ({FUSION: _mixed(document)} if found and FUSION in document.data else {})


def as_written(finding: Diagnostic, task: str, document: Document) -> Diagnostic:
    """The finding about one task in the words of the table that states it: `epochs` of adapter `legal`.

    `document` is that of the whole recipe.
    """
    tables = {table["name"]: table for table in document.data.get(LIST) or []} | {FUSION: document.data.get(FUSION)}
    keys = {dotted(path): key for key, path in OF_ONE_TASK.items() if key in (tables.get(task) or {})}
    if not keys:
        return finding
    where = FUSION if task == FUSION else f"{LIST}.{task}"
    one = f"({'|'.join(map(re.escape, sorted(keys, key=len, reverse=True)))})"
    line, named = re.compile(rf"`{one}( = [^`]*)?`"), re.compile(rf"(?<![\w.]){one}(?!\w|\.\w)")

    def said(text: str) -> str:
        """Lines to write name the key as the table of an adapter has it; everything else names the adapter, too."""
        if task != FUSION:
            text = line.sub(lambda found: f"`{keys[found[1]]}{found[2] or ''}` of adapter `{task}`", text)
        return named.sub(lambda found: f"{where}.{keys[found[1]]}", text)

    labels = tuple(replace(label, message=said(label.message)) for label in finding.labels)
    others = {"help": tuple(map(said, finding.help)), "notes": tuple(map(said, finding.notes))}
    return replace(finding, title=said(finding.title), labels=labels, **others)


def _mixed(document: Document) -> Document:
    """The recipe of what is learned behind the adapters: on its own rows, or on those of all of them."""
    table, places = dict(document.data[FUSION]), dict(document.places)
    for key in () if "train" in table else ADAPTER_SOURCES:
        rows = [(at, adapter[key]) for at, adapter in enumerate(document.data[LIST]) if key in adapter]
        if key not in table and f"{key}_fraction" not in table and len(rows) == len(document.data[LIST]):
            table[key] = []
            places[FUSION, key] = document.places[(LIST,)]
            for at, value in rows:
                _append(table[key], value, places, (FUSION, key), (LIST, at, key))
    for key, value in {} if "train" in document.data[FUSION] else _sizes(document.data[LIST]).items():
        if key not in table:
            table[key], places[FUSION, key] = value, document.places[(LIST,)]
    alone = _alone(replace(document, places=places), table, (FUSION,))
    kept = {key: value for key, value in table.items() if key not in OF_ONE_TASK}
    dropped = [key for key in _OF_ADAPTERS if key not in table]
    data = _without(alone.data, [path for key in dropped for path in _everywhere(key)])
    return replace(alone, data={**data, FUSION: kept})


def _sizes(adapters: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many rows all adapters have, and their mean length in tokens, where each adapter says so itself."""
    rows = [adapter.get("examples", 0) for adapter in adapters]
    lengths = [adapter.get("tokens_per_example", 0) for adapter in adapters]
    found = {"examples": sum(rows)} if all(rows) else {}
    if all(rows) and all(lengths):
        found["tokens_per_example"] = -(-sum(map(mul, rows, lengths)) // sum(rows))
    return found


def _everywhere(key: str) -> list[KeyPath]:
    """A key of [train] and of every stage in it."""
    return [("train", key), *(("train", stage, key) for stage in METHODS)]


def _append(rows: list[Any], value: Any, places: dict[KeyPath, Located], to: KeyPath, source: KeyPath) -> None:
    """Add one source of rows, or a list of them, with the places where they are written."""
    listed = [(value, source)] if not isinstance(value, list) else [(v, (*source, n)) for n, v in enumerate(value)]
    for one, at in ((one, at) for one, at in listed if one not in rows):  # tasks may share a source
        places |= _moved_places(places, at, (*to, len(rows)))
        rows.append(one)


def _alone(document: Document, table: Mapping[str, Any], at: KeyPath) -> Document:
    """The recipe with what one adapter says in the places where a recipe of one task says it."""
    data = {name: value for name, value in document.data.items() if name not in (LIST, FUSION)}
    places = dict(document.places)
    for key, path in OF_ONE_TASK.items():
        if key in table:
            kept = [OF_ONE_TASK[other] for other in table if other in OF_ONE_TASK]
            held = [path, *(rival for rival in rivals(path) if rival not in kept)]
            data = _without(data, [(one[0], stage, *one[1:]) for one in held for stage in METHODS])  # of all adapters
            data = _laid(data, path, table[key], kept)
            places |= _moved_places(document.places, (*at, key), path)
            for depth in range(1, len(path)):
                places.setdefault(path[:depth], document.places[(*at, key)])
    places.setdefault(("data",), places[at])
    return replace(document, data=data, places=places)


def _laid(data: dict[str, Any], path: KeyPath, value: Any, kept: Any) -> dict[str, Any]:
    """The tables with one value more; what it excludes goes, but for what the same adapter says."""
    dropped = [rival for rival in rivals(path) if rival not in kept]
    first, *rest = path
    table = {name: old for name, old in data.get(first, {}).items() if (first, name) not in dropped} if rest else {}
    return {**data, first: _laid(table, tuple(rest), value, kept) if rest else value}


def _without(data: dict[str, Any], paths: Sequence[KeyPath]) -> dict[str, Any]:
    """The tables without the values at the paths."""
    kept = {name: value for name, value in data.items() if (name,) not in paths}
    below = {name: [rest for first, *rest in paths if first == name and rest] for name in kept}
    return {
        name: _without(value, [tuple(path) for path in below[name]]) if isinstance(value, dict) else value
        for name, value in kept.items()
    }


def _moved_places(places: Mapping[KeyPath, Located], source: KeyPath, path: KeyPath) -> dict[KeyPath, Located]:
    depth = len(source)
    return {(*path, *at[depth:]): located for at, located in places.items() if at[:depth] == source}
