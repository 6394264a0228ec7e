"""Configuration files as data: ordered mappings dumped as block YAML or indented JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from recipec.render.literals import json, yaml
from recipec.render.prose import comment
from recipec.render.traced import Raw, Traced, fragment


class Leaf(Struct, frozen=True):
    """A value (a scalar or a whole branch), the decisions behind it, and a note that YAML prints beside it."""

    value: Any
    decisions: tuple[str, ...] = ()
    note: str = ""


def render_mapping(mapping: Mapping[str, Any], language: str) -> Raw:
    """Dump `mapping` in its own order; `language` is "yaml" or "json" (which has no place for notes)."""
    if language == "yaml":
        return Raw(_yaml_items(mapping, "", "") if _open(mapping)[0] else "{}\n")
    assert language == "json", f"no dump for {language}"
    return Raw(_json_value(mapping, "") + "\n")


def _open(value: Any) -> tuple[Any, tuple[str, ...], str]:
    """The data inside leaves and traces, who decided it, and the note."""
    ids: tuple[str, ...] = ()
    note = ""
    while isinstance(value, Leaf | Traced):
        if isinstance(value, Leaf):
            value, ids, note = value.value, ids + value.decisions, note or value.note
        else:
            value, ids = value.value, (*ids, value.id)
    return value, ids, note


def _yaml_items(items: Any, first: str, pad: str) -> str:
    """The entries of a mapping or a list; the first one starts after `first`, which is on its line already."""
    heads = [f"{yaml(key)}:" for key in items] if isinstance(items, Mapping) else ["-"] * len(items)
    values = items.values() if isinstance(items, Mapping) else items
    starts = [first] + [pad] * (len(heads) - 1)
    return "".join(_yaml_entry(s + h, v, pad) for s, h, v in zip(starts, heads, values, strict=True))


def _yaml_entry(head: str, value: Any, pad: str) -> str:
    value, ids, note = _open(value)
    beside = f"  # {comment(note)}" if note else ""
    if isinstance(value, Mapping) and value and head.endswith("-") and not note:
        text = _yaml_items(value, head + " ", pad + "  ")
    elif isinstance(value, Mapping | list | tuple) and value:
        text = f"{head}{beside}\n" + _yaml_items(value, pad + "  ", pad + "  ")
    elif isinstance(value, str) and _is_block_text(value):
        text = f"{head} {_yaml_text(value, beside, pad + '  ')}"
    else:
        text = f"{head} {yaml(value)}{beside}\n"
    return fragment(text, ids)


def _is_block_text(text: str) -> bool:
    """Several lines that a literal block scalar can hold as they are."""
    lines = text.split("\n")
    whole = all(line.isprintable() and line == line.rstrip(" ") for line in lines)
    return len(lines) > 1 and whole and lines[0].strip() == lines[0] != "" and not text.endswith("\n\n")


def _yaml_text(text: str, beside: str, pad: str) -> str:
    style = "|" if text.endswith("\n") else "|-"
    lines = text.removesuffix("\n").split("\n")
    return f"{style}{beside}\n" + "".join(f"{pad}{line}\n" if line else "\n" for line in lines)


def _json_value(value: Any, pad: str) -> str:
    value, ids, _ = _open(value)
    if not isinstance(value, Mapping | list | tuple) or not value:
        return fragment(json(value), ids)
    inner = pad + "  "
    if isinstance(value, Mapping):
        entries, (opening, closing) = [_json_entry(key, part, inner) for key, part in value.items()], "{}"
    else:
        entries, (opening, closing) = [inner + _json_value(part, inner) for part in value], "[]"
    return fragment(f"{opening}\n" + ",\n".join(entries) + f"\n{pad}{closing}", ids)


def _json_entry(key: str, value: Any, pad: str) -> str:
    return f"{pad}{json(key)}: {_json_value(value, pad)}"
