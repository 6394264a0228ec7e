"""Keys that stand where the language has none of their name: the key, table or value that was meant."""

from __future__ import annotations

import json
from typing import Any

from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.schema_keys import keys_of, sections_with_key, usual_first

MANY_KEYS = 6  # of a table: more of them are not listed
_ALIKE = 0.55  # of difflib's ratio; below it, words share no more than letters
# Sections that a text alone could stand for: their first key has it.
_SAID_BY_FIRST_KEY = ("recipe", "goal", "model", "data", "hardware", "alignment", "track", "launch")
_BELOW = ("train.lora", "train.prompt", "train.bottleneck", "alignment.generation")  # tables in sections


def elsewhere(path: KeyPath, value: Any, known: list[str], kind: str) -> str:
    """Suggest the key that was meant, else the table where this key is at home, else the nearest keys."""
    key, table = str(path[-1]), dotted(tuple(part for part in path[:-1] if isinstance(part, str)))
    if homes := homes_of(key):
        return f"`{key}` is a key of {' and '.join(f'[{home}]' for home in homes)}"
    if near := near_to(key, known):
        return f"did you mean `{near}`?"
    if said := as_table((key,), value):
        return said
    if kind == "table" or len(known) <= MANY_KEYS:
        return f"the {kind}s are {listed(known)}"
    if close := _nearest(key, known):
        return f"the nearest keys are {listed(close)}" if len(close) > 1 else f"the nearest key is `{close[0]}`"
    return f"remove it: nothing like it is a key; `recipec explain {table}` lists them"


def homes_of(key: str) -> list[str]:
    """The tables that have a key of this name."""
    below = [table for table in _BELOW if key in keys_of(tuple(table.split(".")))]
    return usual_first([*sections_with_key(key), *below])


def as_table(path: KeyPath, value: Any) -> str:
    """How to write a section that is given as a value, such as `model = "Qwen/Qwen3-8B"`; "" for other keys."""
    section = str(path[0]) if len(path) == 1 else ""
    if section not in _SAID_BY_FIRST_KEY or isinstance(value, dict):
        return ""
    first = next(iter(keys_of((section,))))
    written = json.dumps(value, ensure_ascii=False) if isinstance(value, str) and len(value) < 100 else "…"
    return f"write `{first} = {written}` under [{section}]"


def near_to(text: str, known: list[str]) -> str:
    """The known word that is spelled nearly like the text; "" where none is."""
    from difflib import get_close_matches

    near = get_close_matches(text.lower().replace("-", "_"), {k.replace("-", "_"): k for k in known}, n=1)
    return next((k for k in known if near and k.replace("-", "_") == near[0]), "")


def _nearest(text: str, known: list[str]) -> list[str]:
    """Up to three keys that look like it, in the order of their likeness."""
    from difflib import get_close_matches

    return get_close_matches(text.lower(), known, n=3, cutoff=_ALIKE)


def listed(values: list[str], last: str = "and") -> str:
    """Values in backticks, in a row of words."""
    quoted = [f"`{value}`" for value in values]
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}" if len(quoted) > 1 else "".join(quoted)
