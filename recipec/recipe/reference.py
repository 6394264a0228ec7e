"""The reference of the language: a page for every table and key, from the JSON Schema and the rules.

`recipec explain train.packing` prints one page; `python -m recipec.recipe.reference` writes docs/reference.md with all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.axes import METHODS
from recipec.recipe.fields import ABSENT
from recipec.recipe.foreign import keys_named, names_of
from recipec.recipe.json_schema import COMMITTED, WITHOUT
from recipec.recipe.load import LAST_STAGE_ONLY
from recipec.recipe.schema_adapters import ADAPTER_SOURCES, MIX
from recipec.recipe.schema_data import DATA_SOURCES
from recipec.recipe.schema_keys import usual_first
from recipec.recipe.schema_shapes import Bottleneck, Lora, Prompt
from recipec.recipe.schema_training import ADAPTED, Learning
from recipec.rules import RULES
from recipec.rules.core import Rule

WRITTEN = Path(__file__).parents[2] / "docs" / "reference.md"
Node = Mapping[str, Any]

_OF_STAGES = {
    "train": Learning,
    "train.lora": Lora,
    "train.prompt": Prompt,
    "train.bottleneck": Bottleneck,
}  # the tables whose keys a stage may have for itself
_STAGES = tuple(f"train.{name}" for name in METHODS)  # tables with keys of [train], for one stage
_LIKE_ANOTHER = (  # have the keys of the first source
    *(f"data.{name}" for name in DATA_SOURCES[1:]),
    *(f"{table}.{name}" for table in ("adapters", MIX.asked_in) for name in ADAPTER_SOURCES),
)
_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "object": "a table",
}
REQUIRED = "none, every recipe needs it"
_HEAD = """\
# Reference of the recipe language

All tables and keys, in the order in which recipes usually set them. recipec decides the value of a key that a recipe
does not set; `recipec why` shows how, and `recipec explain KEY` prints the page of a key.

This file is generated with `python -m recipec.recipe.reference`.
"""


class Entry(Struct, frozen=True):
    """A table or a key."""

    path: str  # as a recipe names it: "train.lora.rank"
    node: Node  # of the JSON Schema, its reference resolved
    required: bool

    @property
    def table(self) -> str:
        """What it is written in; "" for a table of the top level."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]

    @property
    def is_table(self) -> bool:
        """Whether it has keys that the language knows."""
        return "properties" in self.node


@cache
def _schema() -> Node:
    return json.loads(COMMITTED.read_text(encoding="utf-8"))


@cache
def entries() -> dict[str, Entry]:
    """Path -> entry, of every table and key; what is the same in several tables is there once."""
    tables = _schema()["then"]["required"]
    found: dict[str, Entry] = {}
    for name, node in _schema()["properties"].items():
        _collect(name, node, name in tables, found)
    return found


def _collect(path: str, node: Node, required: bool, found: dict[str, Entry]) -> None:
    """Add an entry, and those of its keys."""
    whole = _resolved(node)
    found[path] = Entry(path, whole, required)
    if path in _STAGES or path in _LIKE_ANOTHER:
        return
    table = _as_table(whole)
    needed = (*table.get("required", ()), *_schema()["then"]["properties"].get(path, {}).get("required", ()))
    for name, key in table.get("properties", {}).items():
        _collect(f"{path}.{name}", key, name in needed, found)


def _resolved(node: Node) -> Node:
    """The node with what it refers to; its own words win."""
    reference = next((entry["$ref"] for entry in node.get("allOf", ())), node.get("$ref", ""))
    named = _schema()["definitions"][reference.rsplit("/", 1)[1]] if reference else {}
    return {**named, **{name: value for name, value in node.items() if name not in ("allOf", "$ref")}}


def _as_table(node: Node) -> Node:
    """The node, or what it may be written as: a source of data or a model is a text or a table; else its entries."""
    choices = map(_resolved, (*node.get("anyOf", ()), *filter(None, [node.get("items")])))
    return node if "properties" in node else next(filter(None, map(_as_table, choices)), {})


def page_of(name: str) -> tuple[str, str] | None:
    """The path and the page of a key, `train.packing` or `packing`, or of a table, `[train]`; None if unknown.

    A name that other tools have for keys gives theirs.
    """
    wanted = name.strip().strip("[]").lower()
    for table in _STAGES:
        wanted = wanted.replace(f"{table}.", "train.") if wanted.startswith(f"{table}.") else wanted
    for table in _LIKE_ANOTHER:
        wanted = wanted.replace(f"{table}.", f"data.{DATA_SOURCES[0]}.") if wanted.startswith(f"{table}.") else wanted
    known = entries()
    found = [known[wanted]] if wanted in known else [e for p, e in known.items() if p.endswith(f".{wanted}")]
    found = found or [known[key] for key in keys_named(wanted) if key in known]
    found = [known[path] for path in usual_first(entry.path for entry in found)]
    return (found[0].path, "\n".join(map(page, found))) if found else None


def page(entry: Entry) -> str:
    """What a table or key is for, what it takes, and what its absence means, as Markdown."""
    title = f"[{entry.path}]" if entry.is_table else entry.path
    means = entry.node.get("description", "").partition(WITHOUT)[0]
    lines = [f"# {title}: {entry.node['title']}", "", means, ""]
    return "\n".join([*lines, *(_keys(entry) if entry.is_table else _facts(entry)), ""])


def _keys(entry: Entry) -> Iterator[str]:
    below = [key for key in entries().values() if key.table == entry.path]
    yield from (f"- `{key.name}`: {_first_sentence(key)}" for key in below)
    if entry.path in _STAGES:
        keys = ", ".join(f"`{name}`" for name in entry.node["properties"])
        yield f"- all keys of [train] that can differ between stages: {keys}"


def _first_sentence(entry: Entry) -> str:
    return str(entry.node.get("description", entry.node["title"])).split("\n", 1)[0]


def _facts(entry: Entry) -> Iterator[str]:
    yield f"- Takes: {kind(entry.node)}"
    yield f"- Default: {absent(entry)}"
    yield from (f"- Example: `{entry.name} = {_toml(value)}`" for value in entry.node.get("examples", ())[:1])
    yield from (f"- In {tool}: {', '.join(f'`{name}`' for name in names)}" for tool, names in names_of(entry.path))
    if entry.table in _OF_STAGES and entry.name in _OF_STAGES[entry.table].model_fields:
        below = entry.table.removeprefix("train")
        if entry.path.removeprefix("train.") in LAST_STAGE_ONLY:
            yield "- In a recipe of several stages it holds for the last one: what the others take is decided"
        yield f"- For one stage only: set it in [train.STAGE{below}], for example [train.{ADAPTED[0]}{below}]"


def absent(entry: Entry) -> str:
    """What a recipe without the key gets."""
    if entry.required:
        return REQUIRED
    if rules := [rule for rule in RULES.values() if rule.key == entry.path]:
        return _decided(rules)
    if "default" in entry.node:
        return f"`{_toml(entry.node['default'])}`"
    return str(entry.node[ABSENT])


def _decided(rules: list[Rule]) -> str:
    """What decides the key: a rule in its words, or the ids of several."""
    pages = ", ".join(f"`recipec explain {rule.id}`" for rule in rules)
    return f"decided. {rules[0].title} ({pages})" if len(rules) == 1 else f"decided, see {pages}"


def kind(node: Node) -> str:
    """What values it takes, in words."""
    node = _resolved(node)
    if "const" in node:
        return f"`{_toml(node['const'])}`"
    if "enum" in node:
        return ", ".join(f"`{_toml(value)}`" for value in node["enum"])
    if "anyOf" in node:
        return _choice(node["anyOf"])
    if node["type"] == "array":
        return f"a list; each entry is {kind(node['items'])}"
    return " ".join(filter(None, (_KINDS[node["type"]], _range(node))))


def _choice(choices: list[Node]) -> str:
    """Several kinds; a list of what may also stand alone is one of these."""
    alone = [choice for choice in choices if choice.get("items") not in choices]
    words = " or ".join(dict.fromkeys(kind(choice) for choice in alone))
    return words if len(alone) == len(choices) else f"{words}, or a list of these"


def _range(node: Node) -> str:
    """The numbers that are accepted."""
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    return " and ".join(f"{word} {node[bound]:,}" for bound, word in words.items() if bound in node)


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(entry)}" for name, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def reference() -> str:
    """All pages as one document."""
    pages = (page(entry).replace("# ", "## " if "." not in entry.path else "### ", 1) for entry in entries().values())
    return "\n".join([_HEAD, *pages])


if __name__ == "__main__":  # writes the committed file anew
    text = reference()
    with WRITTEN.open("w", encoding="utf-8") as file:
        file.write(text)
