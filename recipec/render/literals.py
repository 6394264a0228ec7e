"""Literals of data languages: plain or traced values as Python, JSON or flow YAML that reads back as the same data."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from recipec.render.characters import escaped, long_escape, utf16_escape
from recipec.render.traced import Raw, Traced, mark, visible

_YAML_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*")
# Words that a YAML 1.1 reader, which PyYAML is, takes for a boolean or null.
_YAML_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"))


class _Language(Struct, frozen=True):
    """How a data language writes its scalars; lists and mappings are alike in all three."""

    true: str
    false: str
    none: str
    string: Callable[[str], str]
    integer: Callable[[int], str]
    number: Callable[[float], str]
    tuples: bool = False


def py(value: Any, width: int | None = None, indent: int = 0) -> Raw:
    """A Python literal; a string wider than `width` becomes parenthesised parts, four columns right of `indent`."""
    text = _write(value, _PYTHON)
    string = value.value if isinstance(value, Traced) else value
    if width is None or not isinstance(string, str) or isinstance(string, Raw) or len(visible(text)) <= width:
        return Raw(text)
    parts = _in_parts(string, width - indent - 4)
    broken = "(\n" + "".join(f"{' ' * (indent + 4)}{part}\n" for part in parts) + " " * indent + ")"
    return mark(value.id, broken) if isinstance(value, Traced) else Raw(broken)


def json(value: Any) -> Raw:
    """A JSON value on one line."""
    return Raw(_write(value, _JSON))


def yaml(value: Any) -> Raw:
    """A YAML value on one line, which readers of YAML 1.1 and 1.2 agree on."""
    return Raw(_write(value, _YAML))


def number(value: float) -> str:
    """The shortest text that reads back as `value`: 2e-4, 0.05, 1.5, 1e16."""
    assert math.isfinite(value), f"{value} has no literal"
    text = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e16:
        return text
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    mantissa = "".join(map(str, digits))
    fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' * sign}{mantissa[0]}{fraction}e{int(exponent) + len(digits) - 1}"


def _write(value: Any, language: _Language) -> str:
    if isinstance(value, Traced):
        return mark(value.id, _write(value.value, language))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_write(k, language)}: {_write(v, language)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple) and language.tuples:
        return "(" + ", ".join(_write(part, language) for part in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_write(part, language) for part in value) + "]"
    return _scalar(value, language)


def _scalar(value: Any, language: _Language) -> str:
    if isinstance(value, Raw):
        return value
    if value is None:
        return language.none
    if isinstance(value, bool):
        return language.true if value else language.false
    for kind, write in ((str, language.string), (int, language.integer), (float, language.number)):
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"{value!r} has no literal")


def _python_string(text: str) -> str:
    """The quote that needs fewer escapes, double when equal: what `ruff format` leaves alone."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + escaped(text, quote, long_escape) + quote


def _python_integer(value: int) -> str:
    return f"{value:_}" if abs(value) >= 100_000 else str(value)


def _json_string(text: str) -> str:
    return '"' + escaped(text, '"', utf16_escape) + '"'


def _yaml_string(text: str) -> str:
    if _YAML_PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    return '"' + escaped(text, '"', long_escape) + '"'


def _yaml_number(value: float) -> str:
    """YAML 1.1 wants a point in the mantissa and a sign on the exponent: 2.0e-4."""
    mantissa, e, exponent = number(value).partition("e")
    if not e:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+d}"


def _in_parts(text: str, width: int) -> list[str]:
    """Python literals that concatenate to `text`, each at most `width` columns where its words allow it."""
    parts = [""]
    for word in re.findall(r"\s*\S+\s*?(?=\s\S|$)|\s+$", text):
        if parts[-1] and len(_python_string(parts[-1] + word)) > width:
            parts.append("")
        parts[-1] += word
    return [_python_string(part) for part in parts]


_PYTHON = _Language("True", "False", "None", _python_string, _python_integer, number, tuples=True)
_JSON = _Language("true", "false", "null", _json_string, str, number)
_YAML = _Language("true", "false", "null", _yaml_string, str, _yaml_number)
