"""Random TOML documents for property tests, written in every style that TOML offers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_KEYS = st.text(alphabet="ab_-é .\"'#=[", min_size=1, max_size=4)
_TEXTS = st.text(alphabet="ab \"'\\#=[]{},\n\té日", max_size=8)
_SCALARS = st.one_of(
    _TEXTS, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=6
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Draw the text of a valid document with LF or CRLF line ends."""
    data = draw(st.dictionaries(_KEYS, _VALUES, max_size=5))
    text = "# a comment\n" + _table(draw, data, ())
    return text.replace("\n", draw(st.sampled_from(("\n", "\r\n"))))


def _table(draw: st.DrawFn, data: dict[str, Any], path: tuple[str, ...]) -> str:
    """Write the scalars of a table first, then its tables: below a header, dotted, or in line."""
    lines, tables = [], []
    for name, value in data.items():
        below = (*path, name)
        style = draw(st.sampled_from(("header", "dotted", "inline")))
        if isinstance(value, dict) and value and style == "header":
            tables.append(f"[ {_dotted(below)} ] # header\n{_table(draw, value, below)}")
        elif isinstance(value, dict) and value and style == "dotted":
            lines += [f"{_key(name)} . {_key(inner)} = {_value(draw, entry)}" for inner, entry in value.items()]
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            tables += [f"[[{_dotted(below)}]]\n{_table(draw, entry, below)}" for entry in value]
        else:
            lines.append(f"{_key(name)}={_value(draw, value)}  # said")
    return "".join(f"{line}\n" for line in lines) + "\n".join(tables)


def _value(draw: st.DrawFn, value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(draw, entry)}" for name, entry in value.items()) + " }"
    if isinstance(value, list):
        gap = draw(st.sampled_from(("", " ", "\n  # inside\n  ")))
        return "[" + "".join(f"{gap}{_value(draw, entry)},{gap}" for entry in value) + "]"
    return _text(draw, value) if isinstance(value, str) else json.dumps(value)


def _text(draw: st.DrawFn, text: str) -> str:
    styles = [json.dumps(text, ensure_ascii=draw(st.booleans())), f'"""{json.dumps(text)[1:-1]}"""']
    if "'" not in text:
        styles.append(f"'''\n{text}'''")
        if "\n" not in text:
            styles.append(f"'{text}'")
    return draw(st.sampled_from(styles))


def _key(name: str) -> str:
    return name if name.replace("_", "a").replace("-", "a").isascii() and name.isalnum() else json.dumps(name)


def _dotted(path: tuple[str, ...]) -> str:
    return " . ".join(_key(part) for part in path)
